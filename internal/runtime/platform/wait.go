package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// longestWatch is how long a watch lasts before the Session and its Turns are read again.
	longestWatch = 30 * time.Second
	// maxQueued is how many queued Turns are counted at most that are not suspended, and maxSuspended how many may be
	// suspended.
	maxQueued, maxSuspended = 20, 200
)

// idleness is the result of a wait.
type idleness struct {
	Session  string `json:"session"`
	Status   string `json:"status"`
	TimedOut bool   `json:"timed_out"`
	// Queued is how many Turns wait for their turn, up to maxQueued, if the Session itself is idle.
	Queued int `json:"queued_turns,omitempty"`
}

// wait returns the status of a Session as soon as it is idle: no Turn of it runs or waits for its turn. It returns the
// status that the Session has when the time is up.
func wait(ctx context.Context, c *call) (any, error) {
	if err := c.other(c.arguments.Session, "wait for it, because it runs until you have ended"); err != nil {
		return nil, err
	}
	if err := c.notAbove(ctx); err != nil {
		return nil, err
	}
	until, cancel := context.WithTimeout(ctx, c.arguments.wait())
	defer cancel()
	last := idleness{Session: c.arguments.Session}
	for {
		version, idle, err := c.look(until, &last)
		switch {
		case err != nil && until.Err() != nil && last.Status != "":
			last.TimedOut = true
			return last, nil
		case err != nil:
			return nil, err
		case idle:
			return last, nil
		}
		if err := c.changed(until, version); err != nil && until.Err() == nil {
			return nil, err
		}
		if !rest(until, c.pause) {
			last.TimedOut = true
			return last, nil
		}
	}
}

// notAbove refuses to wait for a Session that waits for this one, whose agent is a sub-agent of it.
func (c *call) notAbove(ctx context.Context) error {
	name := c.session
	for range maxOrigins {
		var own struct {
			Spec struct {
				Origin struct {
					SubAgent struct {
						Session struct {
							Name string `json:"name"`
						} `json:"session"`
					} `json:"subAgent"`
				} `json:"origin"`
			} `json:"spec"`
		}
		if !validName(name) {
			return errors.New("reading your own Session: its name is not valid")
		}
		if err := c.do(ctx, request{method: http.MethodGet, kind: sessions, name: name}, &own); err != nil {
			return fmt.Errorf("reading your own Session: %w", err)
		}
		switch name = own.Spec.Origin.SubAgent.Session.Name; name {
		case "":
			return nil
		case c.arguments.Session:
			return fmt.Errorf("session %s waits for you: you are a sub-agent of it", name)
		}
	}
	return nil
}

// look reads the state of the Session.
func (c *call) look(ctx context.Context, into *idleness) (version string, idle bool, err error) {
	var s struct {
		Metadata metadata `json:"metadata"`
		Status   struct {
			Phase      string          `json:"phase"`
			ActiveTurn json.RawMessage `json:"activeTurn"`
		} `json:"status"`
	}
	err = c.do(ctx, request{method: http.MethodGet, kind: sessions, name: c.arguments.Session}, &s)
	if err != nil {
		return "", false, err
	}
	into.Status = s.Status.Phase
	if into.Status == "" {
		into.Status = "Pending"
	}
	into.Queued = 0
	if len(s.Status.ActiveTurn) > 0 || into.Status != "Idle" && into.Status != "Started" {
		return s.Metadata.Version, false, nil
	}
	into.Queued, err = c.queued(ctx)
	return s.Metadata.Version, err == nil && into.Queued == 0, err
}

// queued returns how many Turns of the Session have not ended. A Turn that was just created is one of them, although
// the Session does not show it yet; a suspended one is not, because it waits for a user.
func (c *call) queued(ctx context.Context) (int, error) {
	rows, err := c.turnsOf(ctx, c.arguments.Session)
	if err != nil {
		return 0, err
	}
	queued, suspended := 0, 0
	for _, r := range rows {
		if r.phase == "Succeeded" || r.phase == "Failed" || r.phase == "Cancelled" {
			continue
		}
		held, err := c.suspended(ctx, r.name)
		switch {
		case err != nil:
			return 0, err
		case held:
			suspended++
		default:
			queued++
		}
		if queued == maxQueued {
			break
		}
		if suspended > maxSuspended {
			return 0, fmt.Errorf("session %s has more than %d suspended Turns, of which not all are read",
				c.arguments.Session, maxSuspended)
		}
	}
	return queued, nil
}

// suspended reports whether a queued Turn waits for a user, or is gone.
func (c *call) suspended(ctx context.Context, name string) (bool, error) {
	var turn object
	err := c.do(ctx, request{method: http.MethodGet, kind: turns, name: name}, &turn)
	if has(err, http.StatusNotFound) {
		return true, nil
	}
	return turn.Spec["suspend"] == true, err
}

// changed returns when the Session has changed since a version of it, or after a while.
func (c *call) changed(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeout(ctx, longestWatch)
	defer cancel()
	response, err := c.send(ctx, request{method: http.MethodGet, kind: sessions, query: url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "fieldSelector": {"metadata.name=" + c.arguments.Session},
		"timeoutSeconds": {strconv.Itoa(int(longestWatch / time.Second))},
	}}, nil)
	if err != nil {
		// The next read of the Session is repeated, or fails for the same reason.
		return nil
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
		if again(response) >= 0 {
			rest(ctx, longestPause)
			return nil
		}
		return refused(response.StatusCode, raw)
	}
	var event json.RawMessage
	err = json.NewDecoder(io.LimitReader(response.Body, maxResponseBytes)).Decode(&event)
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		// The connection was lost.
		rest(ctx, time.Second)
	}
	return nil
}
