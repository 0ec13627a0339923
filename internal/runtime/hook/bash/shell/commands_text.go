package shell

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
	"mvdan.cc/sh/v3/interp"
)

func decimal(n int) string { return strconv.Itoa(n) }

// search returns the function that finds the first argument of grep in a line.
func search(o options) (func(line string) []int, error) {
	pattern := o.rest[0]
	if o.has('F') {
		pattern = regexp.QuoteMeta(pattern)
	}
	if o.has('i') {
		pattern = "(?i)" + pattern
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return compiled.FindStringIndex, nil
}

func sortCommand(c *commandContext) error {
	o, err := c.options("rnu")
	if err != nil {
		return err
	}
	lines, err := c.lines(o.rest)
	if err != nil {
		return err
	}
	compare := strings.Compare
	if o.has('n') {
		compare = func(a, b string) int {
			x, _ := strconv.ParseFloat(strings.TrimSpace(a), 64)
			y, _ := strconv.ParseFloat(strings.TrimSpace(b), 64)
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			default:
				return strings.Compare(a, b)
			}
		}
	}
	slices.SortStableFunc(lines, compare)
	if o.has('u') {
		lines = slices.Compact(lines)
	}
	if o.has('r') {
		slices.Reverse(lines)
	}
	return c.print(lines)
}

func uniq(c *commandContext) error {
	o, err := c.options("c")
	if err != nil {
		return err
	}
	lines, err := c.lines(o.rest)
	if err != nil {
		return err
	}
	var out []string
	for i := 0; i < len(lines); {
		n := i
		for n < len(lines) && lines[n] == lines[i] {
			n++
		}
		line := lines[i]
		if o.has('c') {
			line = fmt.Sprintf("%7d %s", n-i, line)
		}
		out = append(out, line)
		i = n
	}
	return c.print(out)
}

func cut(c *commandContext) error {
	o, err := c.options("d:f:")
	if err != nil {
		return err
	}
	delimiter := "\t"
	if d, ok := o.values['d']; ok {
		delimiter = d
	}
	wanted := map[int]bool{}
	for field := range strings.SplitSeq(o.values['f'], ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return c.usage("invalid field %.64q", field)
		}
		wanted[n] = true
	}
	if len(delimiter) != 1 {
		return c.usage("the delimiter must be a single character")
	}
	lines, err := c.lines(o.rest)
	if err != nil {
		return err
	}
	for i, line := range lines {
		fields := strings.Split(line, delimiter)
		if len(fields) == 1 {
			continue
		}
		var kept []string
		for n, field := range fields {
			if wanted[n+1] {
				kept = append(kept, field)
			}
		}
		lines[i] = strings.Join(kept, delimiter)
	}
	return c.print(lines)
}

// characters are those of a set of tr: single ones, ranges, and the escapes for line breaks and tabs.
func characters(set string) []rune {
	set = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`,
		"[:upper:]", "A-Z", "[:lower:]", "a-z", "[:digit:]", "0-9", "[:space:]", " \t\n\r").Replace(set)
	runes := []rune(set)
	var all []rune
	for i := 0; i < len(runes); i++ {
		if i+2 < len(runes) && runes[i+1] == '-' && runes[i+2] >= runes[i] && runes[i+2] < 256 {
			for r := runes[i]; r <= runes[i+2]; r++ {
				all = append(all, r)
			}
			i += 2
			continue
		}
		all = append(all, runes[i])
	}
	return all
}

func tr(c *commandContext) error {
	o, err := c.options("d")
	if err != nil {
		return err
	}
	sets := 2
	if o.has('d') {
		sets = 1
	}
	if len(o.rest) != sets {
		return c.usage("it takes %d sets", sets)
	}
	from := characters(o.rest[0])
	var to []rune
	if !o.has('d') {
		if to = characters(o.rest[1]); len(to) == 0 {
			return c.usage("the second set is empty")
		}
	}
	content, err := c.input(nil)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.stdout, strings.Map(func(r rune) rune {
		at := slices.Index(from, r)
		switch {
		case at < 0:
			return r
		case o.has('d'):
			return -1
		default:
			return to[min(at, len(to)-1)]
		}
	}, string(content)))
	return err
}

func base64Command(c *commandContext) error {
	o, err := c.options("dw:")
	if err != nil {
		return err
	}
	content, err := c.input(o.rest)
	if err != nil {
		return err
	}
	if !o.has('d') {
		return c.print([]string{base64.StdEncoding.EncodeToString(content)})
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(content)), "\n", ""))
	if err != nil {
		return errors.New("invalid input")
	}
	_, err = c.stdout.Write(decoded)
	return err
}

// date prints the time in UTC: in RFC 3339, or as +%s, +%F and the like.
func date(c *commandContext) error {
	o, err := c.options("u")
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	if len(o.rest) == 0 {
		return c.print([]string{now.Format(time.RFC3339)})
	}
	format, ok := strings.CutPrefix(o.rest[0], "+")
	if !ok {
		return c.usage("only a format can be given, as +%%F")
	}
	return c.print([]string{strings.NewReplacer(
		"%%", "%", "%s", strconv.FormatInt(now.Unix(), 10), "%F", now.Format(time.DateOnly), "%T", now.Format(time.TimeOnly),
		"%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"), "%H", now.Format("15"),
		"%M", now.Format("04"), "%S", now.Format("05"), "%u", strconv.Itoa((int(now.Weekday())+6)%7+1),
	).Replace(format)})
}

// sleep waits, at most until the script must have ended.
func sleep(c *commandContext) error {
	o, err := c.options("")
	if err != nil {
		return err
	}
	if err := c.atLeast(o, 1); err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(o.rest[0], "s"), 64)
	if err != nil || seconds < 0 || seconds > 3600 {
		return c.usage("invalid time %.64q", o.rest[0])
	}
	timer := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// jq applies a filter to JSON values. It reads no modules and no environment.
func jq(c *commandContext) error {
	o, err := c.options("rcesnj")
	if err != nil {
		return err
	}
	if err := c.atLeast(o, 1); err != nil {
		return err
	}
	query, err := gojq.Parse(o.rest[0])
	if err != nil {
		return c.usage("%v", err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return c.usage("%v", err)
	}
	values := []any{nil}
	if !o.has('n') {
		if values, err = c.values(o); err != nil {
			return err
		}
	}
	last := any(nil)
	for _, value := range values {
		for results := code.RunWithContext(c.ctx, value); ; {
			result, ok := results.Next()
			if !ok {
				break
			}
			if err, failed := result.(error); failed {
				fmt.Fprintf(c.stderr, "jq: %v\n", err)
				return interp.ExitStatus(5)
			}
			last = result
			if err := c.printJSON(o, result); err != nil {
				return err
			}
		}
	}
	if o.has('e') && (last == nil || last == false) {
		return interp.ExitStatus(1)
	}
	return nil
}

// values are the JSON values of the input of jq.
func (c *commandContext) values(o options) ([]any, error) {
	content, err := c.input(o.rest[1:])
	if err != nil {
		return nil, err
	}
	values := []any{}
	d := json.NewDecoder(strings.NewReader(string(content)))
	d.UseNumber()
	for {
		var value any
		switch err := d.Decode(&value); {
		case errors.Is(err, io.EOF):
			if o.has('s') {
				return []any{values}, nil
			}
			return values, nil
		case err != nil:
			fmt.Fprintf(c.stderr, "jq: %v\n", err)
			return nil, interp.ExitStatus(2)
		}
		values = append(values, value)
	}
}

func (c *commandContext) printJSON(o options, value any) error {
	if text, ok := value.(string); ok && (o.has('r') || o.has('j')) {
		if o.has('j') {
			_, err := io.WriteString(c.stdout, text)
			return err
		}
		return c.print([]string{text})
	}
	encoded, err := gojq.Marshal(value)
	if err != nil {
		return err
	}
	return c.print([]string{string(encoded)})
}
