package schedule

import (
	"errors"
	"testing"
	"time"
)

func parse(t *testing.T, expression, zone string) *Times {
	t.Helper()
	times, err := Parse(expression, zone)
	if err != nil {
		t.Fatalf("%q in %q: %v", expression, zone, err)
	}
	return times
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// Rules: SCHED-04.
func TestTimesAroundChangesOfTheOffset(t *testing.T) {
	for name, test := range map[string]struct {
		expression, zone, after string
		want                    []string
	}{
		"a time that is skipped is at the end of the gap": {
			"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00+01:00",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"},
		},
		"several that are skipped are one": {
			"0,15,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"},
		},
		"the end of the gap is one time": {
			"0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"},
		},
		"a time that is repeated counts once": {
			"30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		},
		"and not in the repetition": {
			"30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00",
			[]string{"2026-10-26T02:30:00+01:00"},
		},
		"the first time after the repetition": {
			"0 3 * * *", "Europe/Berlin", "2026-10-25T02:59:59+01:00",
			[]string{"2026-10-25T03:00:00+01:00"},
		},
		"every half hour follows the elapsed time in spring": {
			"*/30 * * * *", "Europe/Berlin", "2026-03-29T01:15:00+01:00",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"},
		},
		"every half hour follows the elapsed time in autumn": {
			"*/30 * * * *", "Europe/Berlin", "2026-10-25T02:15:00+02:00",
			[]string{
				"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00",
				"2026-10-25T03:00:00+01:00",
			},
		},
		"half an hour of summer time": {
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"},
		},
		"a day that was left out": {
			"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"},
		},
		"UTC by default": {
			"@daily", "", "2026-03-28T12:00:00Z", []string{"2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z"},
		},
		"the 29 February": {
			"0 0 29 2 *", "America/New_York", "2026-03-01T00:00:00Z", []string{"2028-02-29T00:00:00-05:00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			times, now := parse(t, test.expression, test.zone), at(t, test.after)
			for _, want := range test.want {
				now = times.Next(now)
				if !now.Equal(at(t, want)) {
					t.Fatalf("the next time is %s, want %s", now, want)
				}
			}
		})
	}
}

// Rules: SCHED-01.
func TestExpressionsThatCannotBeUsed(t *testing.T) {
	var expression *ExpressionError
	for _, text := range []string{
		"", "x", "* * * *", "* * * * * *", "60 * * * *", "*/0 * * * *", "@every 1h", "TZ=UTC * * * * *", "CRON_TZ=UTC @daily",
		"@reboot", "* * * * MON-", "5-1 * * * *",
	} {
		if _, err := Parse(text, ""); !errors.As(err, &expression) {
			t.Errorf("%q: %v", text, err)
		}
	}
	var zone *ZoneError
	for _, name := range []string{"Local", "Europe/Atlantis", "../etc/passwd", "/etc/localtime"} {
		if _, err := Parse("* * * * *", name); !errors.As(err, &zone) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if never := parse(t, "0 0 30 2 *", "").Next(at(t, "2026-01-01T00:00:00Z")); !never.IsZero() {
		t.Errorf("the 30 February is at %s", never)
	}
}

func TestTheLatestOfMillionsOfTimesIsFoundAtOnce(t *testing.T) {
	began := time.Now()
	until := at(t, "2036-06-01T12:34:56Z")
	times := parse(t, "* * * * *", "Europe/Berlin")
	for range 100 {
		if got := times.Latest(at(t, "2018-01-01T00:00:00Z"), until); !got.Equal(at(t, "2036-06-01T12:34:00Z")) {
			t.Fatalf("the latest time is %s", got)
		}
		if got := parse(t, "0 0 29 2 *", "").Latest(at(t, "2018-01-01T00:00:00Z"), until); !got.Equal(
			at(t, "2036-02-29T00:00:00Z")) {
			t.Fatalf("the latest time is %s", got)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("200 searches took %s", took)
	}
}

// Rules: SCHED-03.
func TestTheGapIsTheShortestOfAll(t *testing.T) {
	const day = 24 * time.Hour
	for expression, want := range map[string]time.Duration{
		"* * * * *": time.Minute, "*/5 * * * *": 5 * time.Minute, "0,4 * * * *": 4 * time.Minute,
		"0 0 29 2 *": 4*365*day + day, "0 0 30 2 *": horizon,
		// None of these is between the next three times.
		"0,10,20,30,31 * * * *": time.Minute, "0,59 9,10 * * *": time.Minute, "0 0,3,6,9,12,15,18,21,22 * * *": time.Hour,
		"0 0 1,10,20,21 * *": day, "0 9 * * 1,3,5,6": day,
		// Over midnight, if the days follow each other.
		"0,59 0,23 * * *": time.Minute, "0,59 0,23 * * 1": 59 * time.Minute, "0,59 0,23 1,31 * *": time.Minute,
		"0,59 0,23 31 1,3,5 *": 59 * time.Minute, "59,0 23,0 29 2 *": 59 * time.Minute,
		// One of two restricted fields has to match: the 2nd may be a Wednesday.
		"0 0 1 * 3": day,
	} {
		if got := parse(t, expression, "").Gap(); got != want {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

// FuzzTimes checks the times of any expression against each other: they grow, Next finds what Latest finds, and
// walking through them skips none.
func FuzzTimes(f *testing.F) {
	for _, seed := range []string{
		"* * * * *", "30 2 * * *", "0 */2 * * 1-5", "15,45 1-3 * * *", "@hourly", "0 0 1 */3 *",
	} {
		for _, zone := range []string{"", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia"} {
			f.Add(seed, zone, int64(1_774_700_000), uint32(300_000))
			f.Add(seed, zone, int64(1_792_800_000), uint32(300_000))
		}
	}
	f.Fuzz(func(t *testing.T, expression, zone string, from int64, span uint32) {
		times, err := Parse(expression, zone)
		if err != nil || from < 0 || from > 4_000_000_000 {
			return
		}
		after := time.Unix(from, 0)
		until := after.Add(time.Duration(span%400_000) * time.Second)
		var last time.Time
		read := map[string]bool{}
		for next, n := times.Next(after), 0; !next.IsZero() && !next.After(until); next, n = times.Next(next), n+1 {
			if !next.After(after) || !last.IsZero() && !next.After(last) {
				t.Fatalf("%s follows %s", next, last)
			}
			reading := next.In(times.zone).Format("2006-01-02T15:04")
			if !times.everyHour && read[reading] {
				t.Fatalf("%s counts twice", reading)
			}
			read[reading], last = true, next
			if n > 10_000 {
				return
			}
		}
		if got := times.Latest(after, until); !got.Equal(last) {
			t.Fatalf("the latest time from %s to %s is %s, want %s", after, until, got, last)
		}
		if gap := times.Gap(); gap <= 0 || gap%time.Minute != 0 {
			t.Fatalf("the gap is %s", gap)
		}
	})
}
