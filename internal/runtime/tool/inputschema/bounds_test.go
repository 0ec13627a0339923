package inputschema

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/testing/memory"
)

// withPatterns is a schema of many properties, each with a pattern of its own.
func withPatterns(count int, pattern func(int) string) string {
	var properties strings.Builder
	for i := range count {
		fmt.Fprintf(&properties, `"p%d":{"pattern":%q},`, i, pattern(i))
	}
	return `{"properties":{` + strings.TrimSuffix(properties.String(), ",") + `}}`
}

// heap is what is in use after a collection.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestAValidatorKeepsABoundedNumberOfBytes(t *testing.T) {
	const most = 64 << 20
	for name, test := range map[string]struct {
		// tools are so many that together they would keep several times as much.
		tools  int
		schema func(int) string
	}{
		"patterns of many instructions": {300, func(i int) string {
			return withPatterns(420, func(p int) string { return fmt.Sprintf("(?:a|a|a|a|a|a|a|a|a|a|%03d%03d){110}", i, p) })
		}},
		"as many patterns as are accepted": {300, func(i int) string {
			return withPatterns(19, func(p int) string { return fmt.Sprintf("^(?:%03d%03d[a-f0-9]){110}$", i, p) })
		}},
		"many parts": {50, func(i int) string {
			return fmt.Sprintf(`{"$comment":"%d","properties":{%s"z":{}}}`, i, emptyParts(1900))
		}},
		"long names around many parts": {45, func(i int) string {
			return fmt.Sprintf(
				`{"properties":{"%s%d":{"properties":{%s"z":{}}}}}`, strings.Repeat("n", 100), i, emptyParts(1700),
			)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := NewValidator()
			before := heap()
			for i := range test.tools {
				// Whether it is accepted or not: nothing may be kept for long.
				if i%10 == 0 {
					_ = v.CheckSchema([]byte(test.schema(i)))
				}
				_ = v.Validate([]byte(test.schema(i)), `{"p1": "aaaaaaaaaaaaaaaa", "p2": 1, "p3": "x"}`)
			}
			kept := heap() - before
			t.Logf("%d KiB are kept", kept>>10)
			if kept > most {
				t.Errorf("%d MiB are kept for %d tools", kept>>20, test.tools)
			}
			runtime.KeepAlive(v)
		})
	}
}

// emptyParts are so many properties.
func emptyParts(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, `"p%d":{},`, i)
	}
	return b.String()
}

func TestWhatASchemaKeepsIsNotUnderestimated(t *testing.T) {
	values := `{"p1": "aaaaaaaa", "p2": "x"}`
	for name, schema := range map[string]string{
		"instructions": withPatterns(40, func(p int) string { return fmt.Sprintf("(?:ab%03d){80}", p) }),
		"anchored":     withPatterns(40, func(p int) string { return fmt.Sprintf("^(?:ab%03d[a-f0-9]){60}$", p) }),
		"many classes": withPatterns(40, func(p int) string { return fmt.Sprintf(`^%03d\pL{100}$`, p) }),
		"classes":      withPatterns(60, func(p int) string { return fmt.Sprintf(`^%03d\pL`, p) }),
		"parts":        `{"properties":{` + emptyParts(1900) + `"z":{}}}`,
		"keywords": `{"properties":{` + strings.ReplaceAll(
			emptyParts(600), "{}", `{"type":"string","minimum":1.5}`,
		) + `"z":{}}}`,
		"booleans":   `{"properties":{` + strings.ReplaceAll(emptyParts(1900), "{}", "true") + `"z":true}}`,
		"long names": `{"properties":{"` + strings.Repeat("n", 110) + `":{"properties":{` + emptyParts(1700) + `"z":{}}}}}`,
		"values":     `{"enum":[` + strings.Repeat("1,", 15_000) + `1]}`,
		"texts":      `{"enum":[` + strings.Repeat(`"",`, 10_000) + `""]}`,
		"arrays":     `{"enum":[` + strings.Repeat(`[],`, 10_000) + `[]]}`,
		"required":   `{"required":[` + quotedNames(4000) + `]}`,
		"nothing":    `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			const copies = 20
			made := make([]*compiledSchema, copies)
			before := heap()
			for i := range made {
				made[i] = compile([]byte(schema))
				if made[i].err != nil {
					t.Fatal(made[i].err)
				}
				_ = made[i].validate(map[string]any{"p1": values, "p2": values})
				for _, s := range made[i].schema.Properties {
					if re, ok := s.Pattern.(*meteredRegexp); ok {
						re.meter.left = maxWork
						re.MatchString("a")
					}
				}
			}
			kept := (heap() - before) / copies
			t.Logf("%d KiB kept, %d KiB estimated", kept>>10, made[0].bytes>>10)
			if kept > made[0].bytes {
				t.Errorf("it keeps %d bytes, estimated are %d", kept, made[0].bytes)
			}
			runtime.KeepAlive(made)
		})
	}
}

func quotedNames(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, `"%04d",`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

func TestASchemaIsBoundedBeforeItIsCompiled(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"one pattern that is repeated": {withPatterns(1, func(int) string {
			return "(?:" +
				strings.Repeat("abcdefgh", 120) + "){1000}"
		}), "too complex"},
		"repetitions within repetitions": {
			withPatterns(1, func(int) string { return "(?:(?:(?:abcdefgh){10}){10}){10}" }), "too complex",
		},
		"many large classes": {
			withPatterns(1, func(int) string { return strings.Repeat(`\pL`, 300) }), "too complex",
		},
		"many patterns": {
			withPatterns(65, func(i int) string { return fmt.Sprint(i) }), "more than 64 patterns",
		},
		"patterns too complex together": {
			withPatterns(20, func(i int) string { return fmt.Sprintf("(?:%02d){500}", i) }), "too complex in total",
		},
		"patterns of names": {
			`{"patternProperties":{` + strings.ReplaceAll(emptyParts(65), "p", "q") + `"z":{}}}`, "more than 64 patterns",
		},
		"a pattern that is used by a ref": {
			`{"x":{"pattern":"(?:abcdefgh){999}"},"properties":{"a":{"$ref":"#/x"}}}`, "too complex",
		},
		"32 of the worst": {
			withPatterns(32, func(i int) string { return fmt.Sprintf("(?:%s%02d){1000}", strings.Repeat("abcdefgh", 118), i) }),
			"too complex",
		},
		"many parts": {`{"properties":{` + emptyParts(2500) + `"z":{}}}`, "more than 2000 parts"},
		"many booleans": {
			`{"properties":{` + strings.ReplaceAll(emptyParts(2500), "{}", "true") + `"z":true}}`, "more than 2000 parts",
		},
		"long names around many parts": {
			`{"properties":{"` + strings.Repeat("n", 10_000) + `":{"properties":{` + emptyParts(1000) + `"z":{}}}}}`,
			"too large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			begin := time.Now()
			used := memory.Allocated(func() { err = Check([]byte(c.schema)) })
			t.Logf("%d KiB allocated in %v: %v", used>>10, time.Since(begin), err)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if used > 32<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
		})
	}
}

func TestArgumentsThatHaveAKeyTwiceAreRefused(t *testing.T) {
	v := NewValidator()
	for _, arguments := range []string{
		`{"amount":5,"amount":1000000}`, `{"amount":1000000,"amount":5}`, `{"a":1,"\u0061":2}`, `{"a":[{"b":{},"b":{}}]}`,
		`{"":1,"":1}`,
		`{"a":{"x":1},"b":"a","a":null}`, `{"a":"a","b":["a","a"],"b":1}`,
	} {
		if err := v.Validate(nil, arguments); err == nil || !strings.Contains(err.Error(), "duplicate key") {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	for _, arguments := range []string{
		`{"a":"a","b":"b"}`, `{"a":{"a":{"a":1}}}`, `{"a":[{"b":1},{"b":1}],"b":["a","a","b"]}`, `{"a":["b"],"b":1}`,
		`{"x":"x","y":{"x":"y","y":"x"},"z":"y"}`,
	} {
		if err := v.Validate(nil, arguments); err != nil {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

func TestTheFormatRegexIsParsedOnly(t *testing.T) {
	schema := []byte(
		`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":{"format":"regex"}}}}`,
	)
	v := NewValidator()
	if err := v.Validate(schema, `{"a":["^a+$", 5]}`); err != nil {
		t.Error(err)
	}
	if err := v.Validate(schema, `{"a":["^a+$","("]}`); err == nil || !strings.Contains(err.Error(), "at /a/1") {
		t.Errorf("the error is %v", err)
	}
	many := `{"a":[` + strings.TrimSuffix(strings.Repeat(`"(?:a|b|c){999}",`, 5000), ",") + `]}`
	if used := memory.Allocated(func() { _ = v.Validate(schema, many) }); used > 64<<20 {
		t.Errorf("%d MiB were allocated", used>>20)
	}
}
