package streamclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// forwarder begins forwardings that last until their context ends.
type forwarder struct {
	begun []context.Context
	err   error
}

func (f *forwarder) begin(ctx context.Context) (*forwarding, error) {
	if f.err != nil {
		return nil, f.err
	}
	f.begun = append(f.begun, ctx)
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() { close(ended) })
	return &forwarding{address: string(rune('a' + len(f.begun) - 1)), ended: ended}, nil
}

// TestAForwardedPortLastsAsLongAsItsUsers: a request that has its answer does not cut a stream over the same port.
func TestAForwardedPortLastsAsLongAsItsUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, shared := &forwarder{}, &forwards{}
		use := func(want string) context.CancelFunc {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			address, err := shared.use(ctx, f.begin)
			if err != nil || address != want {
				t.Fatalf("got %q, %v, want %s", address, err, want)
			}
			return func() {
				cancel()
				synctest.Wait()
			}
		}
		first, second := use("a"), use("a")
		first()
		if f.begun[0].Err() != nil {
			t.Error("the end of the first user has cut the port of the second")
		}
		third := use("a")
		second()
		third()
		if f.begun[0].Err() == nil {
			t.Error("a port without users is forwarded")
		}
		use("b")()
		if f.begun[1].Err() == nil {
			t.Error("a port without users is forwarded")
		}
	})
}

// TestAPortThatIsLostIsForwardedAgain, and the users of the lost one leave the next one alone.
func TestAPortThatIsLostIsForwardedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, shared := &forwarder{}, &forwards{}
		lost := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := shared.use(ctx, func(context.Context) (*forwarding, error) {
			return &forwarding{address: "lost", ended: lost}, nil
		}); err != nil {
			t.Fatal(err)
		}
		close(lost)
		later, end := context.WithCancel(t.Context())
		if address, err := shared.use(later, f.begin); err != nil || address != "a" {
			t.Fatalf("got %q, %v", address, err)
		}
		cancel()
		synctest.Wait()
		if address, err := shared.use(later, f.begin); err != nil || address != "a" || f.begun[0].Err() != nil {
			t.Errorf("got %q, %v, ended: %v", address, err, f.begun[0].Err())
		}
		end()
		synctest.Wait()
		if f.begun[0].Err() == nil {
			t.Error("a port without users is forwarded")
		}
	})
}

func TestAPortThatCannotBeForwardedIsNotKept(t *testing.T) {
	f, shared := &forwarder{err: errors.New("no pod is ready")}, &forwards{}
	if _, err := shared.use(t.Context(), f.begin); !errors.Is(err, f.err) {
		t.Errorf("got %v", err)
	}
	f.err = nil
	if address, err := shared.use(t.Context(), f.begin); err != nil || address != "a" {
		t.Errorf("got %q, %v", address, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	again := &forwards{}
	if _, err := again.use(ended, f.begin); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v for a user who has left", err)
	}
	if last := f.begun[len(f.begun)-1]; last.Err() == nil || again.current != nil {
		t.Error("a port of a user who has left is forwarded")
	}
}
