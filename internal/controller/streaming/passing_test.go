package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAnotherReplicaPassesConnectionsOn: with the credentials of the caller, a client certificate included.
func TestAnotherReplicaPassesConnectionsOn(t *testing.T) {
	ca := newAuthority(t)
	leader := newBench(t, many(), func(b *bench) { b.handler.Authenticator.Certificates = byCertificates(ca) }).lead()
	leader.step("one")
	address := leader.address
	replica := newBench(t, many(), func(b *bench) {
		b.server.Leader = func(context.Context) (string, error) { return address, nil }
	})
	replica.roots = leader.roots
	expect(t, lines(replica.get(replica.client("own"), path).Body, "id: "), "id: 1", "id: 2")
	certificate := ca.issue(t, "u", 2, time.Hour)
	expect(t, lines(replica.get(replica.client("", certificate), path).Body, "id: "), "id: 1", "id: 2")
	if r := replica.get(replica.client("unknown"), path); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the answer is %s", r.Status)
	}
	if replica.api.reviews != 0 {
		t.Error("the replica has seen a token")
	}
	close(replica.leads)
	replica.roots = nil
	if _, err := replica.try(replica.client("own"), path, nil); err == nil {
		t.Error("the new leader does not answer itself")
	}
}

// TestReplicasThatTakeEachOtherForTheLeaderPassNothingInCircles: a connection is passed on once.
func TestReplicasThatTakeEachOtherForTheLeaderPassNothingInCircles(t *testing.T) {
	passed := make(chan struct{}, 100)
	var addresses [2]string
	var replicas [2]*bench
	for i := range replicas {
		replicas[i] = newBench(t, many(), func(b *bench) {
			b.server.Leader = func(context.Context) (string, error) {
				passed <- struct{}{}
				return addresses[1-i], nil
			}
		})
	}
	addresses = [2]string{replicas[0].address, replicas[1].address}
	if _, err := replicas[0].try(replicas[0].client("own"), path, nil); err == nil {
		t.Error("there is an answer")
	}
	if len(passed) != 1 {
		t.Errorf("the connection was passed on %d times", len(passed))
	}
}

// strangers open connections that begin with TLS and send no more. The end of the test closes them.
func (b *bench) strangers(n int) (all []net.Conn) {
	b.t.Helper()
	for range n {
		conn, err := (&net.Dialer{}).DialContext(b.t.Context(), "tcp", b.address)
		if err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write([]byte{0x16}); err != nil {
			b.t.Fatal(err)
		}
		all = append(all, conn)
	}
	return all
}

// passing returns a replica that passes connections on to a leader.
func passing(t *testing.T, leader *bench, edit func(*bench)) *bench {
	t.Helper()
	replica := newBench(t, many(), func(b *bench) {
		b.server.Leader = func(context.Context) (string, error) { return leader.address, nil }
		if edit != nil {
			edit(b)
		}
	})
	replica.roots = leader.roots
	return replica
}

// TestStrangersWhoArePassedOnMakeRoomForThoseWhoAreKnown: another replica closes the oldest connection whose caller is
// not known, as the leader does, and none of a caller that the leader knows.
func TestStrangersWhoArePassedOnMakeRoomForThoseWhoAreKnown(t *testing.T) {
	leader := newBench(t, many(), nil).lead()
	replica := passing(t, leader, func(b *bench) { b.server.MaxPassed = 2 })
	known := lines(replica.get(replica.client("own"), path).Body, "id: ")
	strangers := replica.strangers(maxPending + 20)
	newcomer := lines(replica.get(replica.client("own"), path).Body, "id: ")
	leader.step("one")
	expect(t, known, "id: 1", "id: 2")
	expect(t, newcomer, "id: 1", "id: 2")
	_, err := strangers[0].Read(make([]byte, 1))
	if !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
		t.Errorf("the oldest connection: %v", err)
	}
	for name, b := range map[string]*bench{"leader": leader, "replica": replica} {
		b.server.connections.mu.Lock()
		if n := b.server.connections.pending.Len(); n > maxPending {
			t.Errorf("%d connections are pending at the %s", n, name)
		}
		b.server.connections.mu.Unlock()
	}
}

// TestConnectionsOfKnownCallersThatArePassedOnAreBounded: beyond the bound the new one ends.
func TestConnectionsOfKnownCallersThatArePassedOnAreBounded(t *testing.T) {
	leader := newBench(t, many(), nil).lead()
	replica := passing(t, leader, func(b *bench) { b.server.MaxPassed = 1 })
	known := lines(replica.get(replica.client("own"), path).Body, "id: ")
	if r, err := replica.try(replica.client("own"), path, nil); err == nil {
		t.Errorf("a connection beyond the bound is answered: %s", r.Status)
	}
	leader.step("one")
	expect(t, known, "id: 1", "id: 2")
}

// TestACallerThatReadsNothingOfWhatIsPassedOnLosesItsPlace: also when the leader has closed its side, of which the
// replica learns by reading only.
func TestACallerThatReadsNothingOfWhatIsPassedOnLosesItsPlace(t *testing.T) {
	leader := newBench(t, many(), func(b *bench) {
		b.handler.Intervals = Intervals{Write: 200 * time.Millisecond}
	}).lead()
	replica := passing(t, leader, func(b *bench) { b.server.MaxPassed, b.server.Patience = 1, 200*time.Millisecond })
	replica.get(replica.client("own"), path)
	for range 200 {
		leader.step(strings.Repeat("x", 100_000))
	}
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		if r, err := replica.try(replica.client("own"), path, nil); err == nil {
			expect(t, lines(r.Body, "id: "), "id: 1")
			return
		}
	}
	t.Error("the place is not free")
}

// TestNothingIsDialedForACallerThatIsGone: a connection that made room for others costs nothing any more.
func TestNothingIsDialedForACallerThatIsGone(t *testing.T) {
	looking, gone := make(chan struct{}, 1), make(chan error, 1)
	replica := newBench(t, many(), func(b *bench) {
		b.server.Leader = func(ctx context.Context) (string, error) {
			select {
			case looking <- struct{}{}:
				<-ctx.Done()
				gone <- context.Cause(ctx)
			default:
			}
			return "", errBroken
		}
	})
	replica.strangers(1)
	<-looking
	replica.server.connections.mu.Lock()
	oldest := replica.server.connections.pending.Front().Value.(*connection)
	replica.server.connections.mu.Unlock()
	_ = oldest.Close()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("looking up the leader ends with %v", err)
	}
}
