package schedule

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // The image of the manager has no time zones.

	"github.com/robfig/cron/v3"
)

const (
	// MaxExpressionBytes bounds a cron expression, and maxZoneBytes the name of a time zone.
	MaxExpressionBytes = 256
	maxZoneBytes       = 64
	// horizon is how far ahead a time is searched. It covers every 29 February, whatever the day of the week but for the
	// rarest.
	horizon = 5 * 366 * 24 * time.Hour
	// farthest is how far back a missed time is searched.
	farthest = 20 * 366 * 24 * time.Hour
)

// fields are those of the expressions of CronJobs.
var fields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// ExpressionError is why an expression cannot be used.
type ExpressionError struct{ problem string }

// Error implements error.
func (e *ExpressionError) Error() string { return "invalid schedule: " + e.problem }

// ZoneError reports a time zone that the database does not have.
type ZoneError struct{ zone string }

// Error implements error.
func (e *ZoneError) Error() string { return fmt.Sprintf("unknown time zone %q", e.zone) }

// Times are those of a cron expression in a time zone. At a change of the offset from UTC, a time that is skipped
// counts as the end of the gap, and a time that is repeated counts once. Expressions of every hour follow the elapsed
// time instead, so that they neither pause nor repeat.
type Times struct {
	spec      *cron.SpecSchedule
	zone      *time.Location
	everyHour bool
}

// Parse reads an expression with five fields, or a name such as @daily. Without a zone it is in UTC. The error is an
// *ExpressionError or a *ZoneError.
func Parse(expression, zone string) (*Times, error) {
	location, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	switch {
	case len(expression) > MaxExpressionBytes:
		return nil, &ExpressionError{fmt.Sprintf("it has more than %d bytes", MaxExpressionBytes)}
	case strings.Contains(expression, "TZ="), strings.HasPrefix(expression, "@every"):
		return nil, &ExpressionError{"it has to have five fields; the time zone is a field of its own"}
	}
	parsed, err := fields.Parse(expression)
	if err != nil {
		return nil, &ExpressionError{err.Error()}
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, &ExpressionError{"it has to have five fields"}
	}
	// The expression is evaluated on the readings of the clock on the wall, as times in UTC.
	spec.Location = time.UTC
	const allHours = 1<<24 - 1
	return &Times{spec: spec, zone: location, everyHour: spec.Hour&allHours == allHours}, nil
}

// Zone returns the time zone of a name; UTC for none. The error is a *ZoneError.
func Zone(name string) (*time.Location, error) {
	if len(name) > maxZoneBytes {
		return nil, &ZoneError{name[:maxZoneBytes]}
	}
	location, err := time.LoadLocation(name)
	if err != nil || location == time.Local {
		return nil, &ZoneError{name}
	}
	return location, nil
}

// Next returns the first time after another one; zero for none within five years.
func (t *Times) Next(after time.Time) time.Time {
	after = after.Truncate(time.Second)
	until := after.Add(horizon)
	_, offset := after.In(t.zone).Zone()
	start, end := after.In(t.zone).ZoneBounds()
	read := wall(after, offset)
	for {
		if repeated := t.repeatedUntil(start, offset); read.Before(repeated) {
			read = repeated.Add(-time.Second)
		}
		next := t.spec.Next(read)
		if next.IsZero() {
			return time.Time{}
		}
		at := instant(next, offset)
		if at.After(until) {
			return time.Time{}
		}
		if end.IsZero() || at.Before(end) {
			return at
		}
		// The offset changes before that.
		_, following := end.In(t.zone).Zone()
		if !t.everyHour && next.Before(wall(end, following)) {
			return end.UTC()
		}
		offset = following
		read = wall(end, offset).Add(-time.Second)
		start, end = end.In(t.zone).ZoneBounds()
	}
}

// repeatedUntil returns the reading of the clock up to which all readings since the start of an offset were seen
// before; zero if none were.
func (t *Times) repeatedUntil(start time.Time, offset int) time.Time {
	if t.everyHour || start.IsZero() {
		return time.Time{}
	}
	_, before := start.Add(-time.Second).In(t.zone).Zone()
	if before <= offset {
		return time.Time{}
	}
	return wall(start, before)
}

// wall returns the reading of a clock with an offset from UTC, as a time in UTC, and instant is its inverse.
func wall(at time.Time, offset int) time.Time {
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

func instant(reading time.Time, offset int) time.Time {
	return reading.Add(-time.Duration(offset) * time.Second)
}

// Latest returns the last time after one point and not after another; zero for none. It does not walk through
// the times in between: its work grows with the logarithm of their number. It looks back at most 20 years.
func (t *Times) Latest(after, until time.Time) time.Time {
	if earliest := until.Add(-farthest); after.Before(earliest) {
		after = earliest
	}
	within := func(at, until time.Time) bool { return !at.IsZero() && !at.After(until) }
	latest := time.Time{}
	for back := time.Minute; latest.IsZero() && until.Add(-back).After(after); back *= 2 {
		if at := t.Next(until.Add(-back)); within(at, until) {
			latest = at
		}
	}
	if latest.IsZero() {
		if latest = t.Next(after); !within(latest, until) {
			return time.Time{}
		}
	}
	for {
		following := t.Next(latest)
		if !within(following, until) {
			return latest
		}
		middle := latest.Add(until.Sub(latest) / 2)
		if at := t.Next(middle); within(at, until) {
			latest = at
		} else {
			latest, until = following, middle
		}
	}
}

const (
	dayMinutes = 24 * 60
	// cycleDays are those of the cycle of 400 years after which dates and days of the week repeat.
	cycleDays = 146_097
	// star is the bit of the parser for a field that is *.
	star = 1 << 63
)

// Gap returns the shortest time between two times in a row, on a clock that is neither put forward nor back; the
// horizon if there are no two. It looks at all times of a day and at all days of the calendar's cycle, and no further.
func (t *Times) Gap() time.Duration {
	first, last, shortest := -1, -1, int64(horizon/time.Minute)
	for minute := range dayMinutes {
		if t.spec.Hour&(1<<(minute/60)) == 0 || t.spec.Minute&(1<<(minute%60)) == 0 {
			continue
		}
		if first < 0 {
			first = minute
		} else {
			shortest = min(shortest, int64(minute-last))
		}
		last = minute
	}
	days, found := t.dayGap()
	if first < 0 || !found {
		return horizon
	}
	if days > 0 {
		shortest = min(shortest, days*dayMinutes+int64(first-last))
	}
	return time.Duration(shortest) * time.Minute
}

// dayGap returns the smallest number of days between two days in a row that have times, 0 if there are no two, and
// reports whether there is one.
func (t *Times) dayGap() (shortest int64, found bool) {
	last := int64(-1)
	day := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	// The first day of the next cycle follows the last one of this.
	for n := int64(0); n < 2*cycleDays && shortest != 1; n++ {
		if t.onDay(day) {
			if last >= 0 && (shortest == 0 || n-last < shortest) {
				shortest = n - last
			}
			if n >= cycleDays {
				break
			}
			last = n
		} else if n >= cycleDays && last < 0 {
			break
		}
		day = day.Add(24 * time.Hour)
	}
	return shortest, last >= 0
}

// onDay reports whether a day has times. If both are restricted, one of the day of the month and the day of the week
// has to match, as for CronJobs.
func (t *Times) onDay(day time.Time) bool {
	if t.spec.Month&(1<<uint(day.Month())) == 0 { //nolint:gosec // It is from 1 to 12.
		return false
	}
	month := t.spec.Dom&(1<<uint(day.Day())) != 0    //nolint:gosec // It is from 1 to 31.
	week := t.spec.Dow&(1<<uint(day.Weekday())) != 0 //nolint:gosec // It is from 0 to 6.
	if t.spec.Dom&star != 0 || t.spec.Dow&star != 0 {
		return month && week
	}
	return month || week
}
