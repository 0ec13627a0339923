package budget

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // The image of the manager has no time zones.

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Window is the period that a limit is for. Both times are zero for the whole life of a Budget.
type Window struct {
	Start, End time.Time
}

// WindowAt returns the window that a time is in. Its times are in UTC.
func WindowAt(spec v1alpha1.BudgetSpec, at time.Time) (Window, error) {
	if spec.Window == v1alpha1.BudgetWindowTotal || spec.Window == "" {
		return Window{}, nil
	}
	zone, err := time.LoadLocation(spec.TimeZone)
	if err == nil && zone == time.Local {
		err = errors.New("it is that of the computer")
	}
	if err != nil {
		return Window{}, fmt.Errorf("loading the time zone %q: %w", spec.TimeZone, err)
	}
	year, month, day := at.In(zone).Date()
	midnight := func(month time.Month, day int) time.Time { return firstOf(zone, year, month, day) }
	switch spec.Window {
	case v1alpha1.BudgetWindowDay:
		return Window{Start: midnight(month, day), End: midnight(month, day+1)}, nil
	case v1alpha1.BudgetWindowWeek:
		monday := day - (int(at.In(zone).Weekday())+6)%7
		return Window{Start: midnight(month, monday), End: midnight(month, monday+7)}, nil
	case v1alpha1.BudgetWindowMonth:
		return Window{Start: midnight(month, 1), End: midnight(month+1, 1)}, nil
	default:
		return Window{}, fmt.Errorf("unknown window %q", spec.Window)
	}
}

// firstOf returns the first moment of a day. Where the clocks skip midnight, that is later.
func firstOf(zone *time.Location, year int, month time.Month, day int) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	if wanted := time.Date(year, month, day, 12, 0, 0, 0, zone).Day(); t.Day() != wanted {
		// The time before the gap was given: the day begins with the end of the gap.
		_, end := t.ZoneBounds()
		t = end
	}
	return t.UTC()
}
