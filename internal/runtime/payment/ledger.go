package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// StoreName is the name of the stores with the ledgers of Sessions and of wallets.
const StoreName = "payments"

const (
	attemptPrefix = "attempt/"
	sumKey        = "sum"
	dayKey        = "day"

	// MaxAttempts is the maximum number of attempts of a Session.
	MaxAttempts = 2000
	// maxOpen is the maximum number of reservations of a wallet in a day whose attempts have not ended.
	maxOpen = 256
)

// sum is what a Session has spent. A Session has one Turn at a time: an operation of an earlier one is stale.
type sum struct {
	Session Amount    `json:"session"`
	Turn    types.UID `json:"turn"`
	InTurn  Amount    `json:"inTurn"`
}

// day is what a wallet has spent in a day, in UTC. Attempts that have ended are part of Spent.
type day struct {
	Date  string            `json:"date"`
	Spent Amount            `json:"spent"`
	Open  map[string]Amount `json:"open,omitempty"`
}

// total is the sum of a day, with the reservations.
func (d day) total() Amount {
	all := d.Spent
	for _, amount := range d.Open {
		all += amount
	}
	return all
}

// at returns the day at a time. A process whose clock is behind goes on with the later day: no day begins twice.
func (d day) at(now time.Time) day {
	if date := now.UTC().Format(time.DateOnly); date > d.Date {
		return day{Date: date}
	}
	return d
}

// reserve returns the day with a reservation. It is pure.
func (d day) reserve(id string, amount, limit Amount, now time.Time) (day, *Refusal) {
	d = d.at(now)
	// A repeated call may be asked for more than before. It keeps its reservation when it is asked for less, because
	// another process may have signed the larger amount.
	before, known := d.Open[id]
	if known && before >= amount {
		return d, nil
	}
	if rest := limit - d.total() + before; amount > rest {
		return d, refuse(ReasonLimit, "of the %s USD that the wallet may pay in a day, %s USD are left", limit, max(rest, 0))
	}
	if len(d.Open) == maxOpen && !known {
		return d, refuse(
			ReasonLimit,
			"%d payments of the wallet have no known end, and more are not made on this day",
			maxOpen,
		)
	}
	open := map[string]Amount{}
	maps.Copy(open, d.Open)
	open[id] = amount
	d.Open = open
	return d, nil
}

// end returns the day without a reservation. Unless it was released, it is part of what was spent. It is pure.
func (d day) end(id string, released bool) day {
	amount, known := d.Open[id]
	if !known {
		return d
	}
	open := map[string]Amount{}
	for other, reserved := range d.Open {
		if other != id {
			open[other] = reserved
		}
	}
	if d.Open = open; !released {
		d.Spent += amount
	}
	return d
}

// ledger keeps the attempts of a Session and the reservations of a wallet.
type ledger struct {
	store           record.Store
	session, wallet record.Scope
	cause           record.Cause
	clock           func() time.Time
}

// find returns the attempt of a call; nil for none.
func (l ledger) find(ctx context.Context, id string) (*Attempt, error) {
	_, value, err := l.store.Get(ctx, l.session, attemptPrefix+id)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the ledger of %s: %w", l.session.Owner(), err)
	}
	a := &Attempt{}
	if err := json.Unmarshal(value, a); err != nil || a.ID != id {
		return nil, fmt.Errorf("reading attempt %s: %w", id, record.ErrFormat)
	}
	return a, nil
}

// reserve records an attempt in both ledgers, or repeats the one that the call has. The error is a *Refusal if a limit
// does not permit it, or the attempt that there is, which is returned then, cannot be repeated. It can be called again.
func (l ledger) reserve(ctx context.Context, turn types.UID, p Policy, perDay Amount, a Attempt) (*Attempt, error) {
	known, err := l.find(ctx, a.ID)
	switch {
	case err != nil:
		return nil, err
	case known != nil && known.State != StateNotSent:
		return l.repeat(ctx, *known, a)
	case known != nil:
		a.Tries = known.Tries
	}
	a.Tries++
	a.Sends = 1
	if err := l.takeFromWallet(ctx, perDay, a); err != nil {
		return nil, err
	}
	other, err := l.inSession(ctx, turn, p, a)
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		// Nothing was signed. If the release fails, the reservation counts for the rest of the day.
		return nil, errors.Join(err, l.endInWallet(ctx, a, true))
	case err != nil:
		return nil, err
	case other != nil:
		return l.repeat(ctx, *other, a)
	}
	return &a, nil
}

const (
	// releases is how often a payment is tried again that only reservations are in the way of: one that the limit of
	// another Session refuses is released at once.
	releases = 20
	// releasePause is the pause between two of these tries.
	releasePause = 50 * time.Millisecond
)

// takeFromWallet reserves the amount of an attempt in the wallet.
func (l ledger) takeFromWallet(ctx context.Context, perDay Amount, a Attempt) error {
	for try := 1; ; try++ {
		onlyReserved := false
		err := l.inWallet(ctx, func(d day) (day, error) {
			next, refusal := d.reserve(shortID(a.ID), a.Amount, perDay, l.clock())
			if refusal != nil {
				onlyReserved = a.Amount <= perDay-d.at(l.clock()).Spent
				return d, refusal
			}
			return next, nil
		})
		if err == nil || !onlyReserved || try == releases {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(releasePause):
		}
	}
}

// repeat records that one process more sends the payment of an attempt, so that no other one releases it.
func (l ledger) repeat(ctx context.Context, known, wanted Attempt) (*Attempt, error) {
	_, err := l.store.Update(ctx, l.session, record.Cause{},
		func(ctx context.Context, x *record.Index) (*record.Operation, error) {
			if err := l.load(ctx, l.session, x, attemptPrefix+known.ID, &known); err != nil {
				return nil, err
			}
			if refusal := known.unrepeatable(wanted, l.clock()); refusal != nil {
				return nil, refusal
			}
			known.Sends++
			return puts(map[string]any{attemptPrefix + known.ID: known})
		})
	if err != nil {
		return &known, fmt.Errorf("repeating a payment of %s: %w", l.session.Owner(), err)
	}
	return &known, nil
}

// inSession records an attempt in the ledger of its Session, unless another process has: then it returns that one.
func (l ledger) inSession(ctx context.Context, turn types.UID, p Policy, a Attempt) (*Attempt, error) {
	cause := l.cause
	cause.Key += fmt.Sprintf("/pay/%d", a.Tries)
	own := false
	_, err := l.store.Update(ctx, l.session, cause,
		func(ctx context.Context, x *record.Index) (*record.Operation, error) {
			own = false
			var (
				s     sum
				other Attempt
			)
			if err := l.load(ctx, l.session, x, attemptPrefix+a.ID, &other); err != nil || other.Tries >= a.Tries {
				return nil, err
			}
			if err := l.load(ctx, l.session, x, sumKey, &s); err != nil {
				return nil, err
			}
			if s.Turn != turn {
				s.Turn, s.InTurn = turn, 0
			}
			if refusal := s.refuses(p, a.Amount, len(x.Items)); refusal != nil {
				return nil, refusal
			}
			s.Session += a.Amount
			s.InTurn += a.Amount
			own = true
			return puts(map[string]any{attemptPrefix + a.ID: a, sumKey: s})
		})
	if err != nil {
		return nil, fmt.Errorf("recording a payment of %s: %w", l.session.Owner(), err)
	}
	if own {
		return nil, nil
	}
	return l.find(ctx, a.ID)
}

// refuses returns why a Session may not spend more. It is pure.
func (s sum) refuses(p Policy, amount Amount, keys int) *Refusal {
	switch {
	case p.MaxTurn > 0 && amount > p.MaxTurn-s.InTurn:
		return refuse(ReasonLimit, "of the %s USD that the tool may pay in a Turn, %s USD are left", p.MaxTurn,
			max(p.MaxTurn-s.InTurn, 0))
	case p.MaxSession > 0 && amount > p.MaxSession-s.Session:
		return refuse(ReasonLimit, "of the %s USD that the tool may pay in a Session, %s USD are left", p.MaxSession,
			max(p.MaxSession-s.Session, 0))
	case keys > MaxAttempts:
		return refuse(ReasonLimit, "the Session has made %d payments, and more are not made", MaxAttempts)
	default:
		return nil
	}
}

// end records how an attempt has ended, and returns its state. An attempt that has ended does not change any more, and
// one that another process may have sent is not released.
func (l ledger) end(ctx context.Context, turn types.UID, a Attempt) (State, error) {
	if a.State == StateReserved {
		return a.State, l.endInWallet(ctx, a, false)
	}
	state := a.State
	_, err := l.store.Update(ctx, l.session, record.Cause{},
		func(ctx context.Context, x *record.Index) (*record.Operation, error) {
			var (
				now Attempt
				s   sum
			)
			err := l.load(ctx, l.session, x, attemptPrefix+a.ID, &now)
			if state = now.State; err != nil || now.State != StateReserved || !a.Counts() && now.Sends > 1 {
				return nil, err
			}
			if err := l.load(ctx, l.session, x, sumKey, &s); err != nil {
				return nil, err
			}
			state, now.State, now.Transaction = a.State, a.State, a.Transaction
			if !a.Counts() {
				s.Session -= now.Amount
				if s.Turn == turn {
					s.InTurn -= now.Amount
				}
			}
			return puts(map[string]any{attemptPrefix + a.ID: now, sumKey: s})
		})
	if err != nil {
		return StateReserved, fmt.Errorf("recording the end of a payment of %s: %w", l.session.Owner(), err)
	}
	return state, l.endInWallet(ctx, a, state == StateNotSent)
}

func (l ledger) endInWallet(ctx context.Context, a Attempt, released bool) error {
	return l.inWallet(ctx, func(d day) (day, error) { return d.end(shortID(a.ID), released), nil })
}

// inWallet changes the day of the wallet.
func (l ledger) inWallet(ctx context.Context, change func(day) (day, error)) error {
	_, err := l.store.Update(ctx, l.wallet, record.Cause{},
		func(ctx context.Context, x *record.Index) (*record.Operation, error) {
			var d day
			if err := l.load(ctx, l.wallet, x, dayKey, &d); err != nil {
				return nil, err
			}
			next, err := change(d)
			if err != nil || same(d, next) {
				return nil, err
			}
			return puts(map[string]any{dayKey: next})
		})
	if err != nil {
		return fmt.Errorf("changing the ledger of %s: %w", l.wallet.Owner(), err)
	}
	return nil
}

// same reports whether a change has left a day as it was.
func same(a, b day) bool {
	return a.Date == b.Date && a.Spent == b.Spent && len(a.Open) == len(b.Open)
}

// load reads the value of a key, and leaves into as it is if there is none.
func (l ledger) load(ctx context.Context, scope record.Scope, x *record.Index, key string, into any) error {
	item, found := x.Find(key)
	if !found {
		return nil
	}
	value, err := l.store.Load(ctx, scope, item)
	if err != nil {
		return err
	}
	if json.Unmarshal(value, into) != nil {
		return fmt.Errorf("reading %s of %s: %w", key, scope.Owner(), record.ErrFormat)
	}
	return nil
}

// puts is the operation that writes values as JSON.
func puts(values map[string]any) (*record.Operation, error) {
	o := &record.Operation{}
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", key, err)
		}
		o.Put = append(o.Put, record.Put{Key: key, Value: text})
	}
	return o, nil
}
