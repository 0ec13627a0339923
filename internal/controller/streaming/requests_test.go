package streaming

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
)

// base is the path of what the Session has.
const base = "/v1/namespaces/ns/sessions/s/"

// everything is what a user may do who may do everything.
var everything = []string{
	"get files", "update files", "delete files", "get storage", "get memory", "delete memory", "get images",
	"create images", "delete images", "get inspect", "approve calls",
}

// ask sends a request, and returns the answer with its body.
func (b *bench) ask(method, at string, body io.Reader) (reply, string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, "https://"+b.address+at, body)
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := b.client("own").Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{response}, string(raw)
}

// want fails unless a request has an answer with a code.
func (b *bench) want(code int, method, at, body string) string {
	b.t.Helper()
	r, raw := b.ask(method, at, strings.NewReader(body))
	if r.StatusCode != code {
		b.t.Fatalf("%s %s: the answer is %s: %.300s", method, at, r.Status, raw)
	}
	return raw
}

func TestEachRequestNeedsItsOwnRight(t *testing.T) {
	for right, request := range map[string][2]string{
		"get files":     {http.MethodGet, "files"},
		"update files":  {http.MethodPut, "files/a"},
		"delete files":  {http.MethodDelete, "files/a"},
		"get storage":   {http.MethodGet, "storage"},
		"get memory":    {http.MethodGet, "memory"},
		"delete memory": {http.MethodDelete, "memory/mem-0000000000000000"},
		"get images":    {http.MethodGet, "images"},
		"create images": {http.MethodPost, "images"},
		"delete images": {http.MethodDelete, "images/img-0"},
		"get inspect":   {http.MethodGet, "inspect"},
		"approve calls": {http.MethodGet, "calls"},
	} {
		t.Run(right, func(t *testing.T) {
			b := newBench(t, many(), nil).lead()
			b.api.rights = slices.DeleteFunc(slices.Clone(everything), func(r string) bool { return r == right })
			b.want(http.StatusForbidden, request[0], base+request[1], "")
			b.api.change(func() { b.api.rights = everything })
			b.forget()
			if r, raw := b.ask(request[0], base+request[1], nil); r.StatusCode == http.StatusForbidden {
				t.Errorf("with the right: %s", raw)
			}
			elsewhere := strings.Replace(base, "/ns/", "/other/", 1)
			b.want(http.StatusForbidden, request[0], elsewhere+request[1], "")
			b.api.change(func() { b.api.tokens = nil })
			b.forget()
			b.want(http.StatusUnauthorized, request[0], base+request[1], "")
		})
	}
}

// Rules: FS-01, FS-05, FS-07.
func TestFilesAreWrittenReadAndDeleted(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.api.rights = everything
	if got := b.want(200, "GET", base+"files", ""); got != "{\"files\":[]}\n" {
		t.Errorf("before anything was written there is %s", got)
	}
	b.want(404, "GET", base+"files/notes/a.txt", "")
	var written stream.FileWritten
	if err := json.Unmarshal([]byte(b.want(200, "PUT", base+"files/notes/a%20b.txt", "one\x1b")), &written); err != nil ||
		written != (stream.FileWritten{Path: "/notes/a b.txt", Size: 4, Created: true}) {
		t.Errorf("the answer to a PUT is %+v, %v", written, err)
	}
	binary := string([]byte{0, 255, 1})
	b.want(200, "PUT", base+"files/workspace/b", binary)
	r, raw := b.ask("GET", base+"files/b", nil)
	if raw != binary || r.Header.Get("Content-Type") != "application/octet-stream" ||
		r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the file is %q with %v", raw, r.Header)
	}
	list := func(at string) (all []string) {
		var found stream.FileList
		if err := json.Unmarshal([]byte(b.want(200, "GET", base+at, "")), &found); err != nil {
			t.Fatal(err)
		}
		for _, f := range found.Files {
			all = append(all, fmt.Sprintf("%s %v %v %s %d", f.Path, f.Directory, f.ReadOnly, f.Encoding, f.Size))
		}
		return all
	}
	top := []string{"/b false false base64 3", "/fixed false true text 14", "/notes true false  0"}
	if got := list("files"); !slices.Equal(got, top) {
		t.Errorf("the root has %q", got)
	}
	if got := list("files/notes/"); !slices.Equal(got, []string{"/notes/a b.txt false false text 4"}) {
		t.Errorf("the directory has %q", got)
	}
	if got := list("files?recursive=true"); len(got) != 4 {
		t.Errorf("there is %q", got)
	}
	b.want(422, "PUT", base+"files/fixed", "other")
	b.want(422, "DELETE", base+"files/fixed", "")
	b.want(422, "DELETE", base+"files/notes", "")
	b.want(204, "DELETE", base+"files/notes?recursive=true", "")
	b.want(404, "DELETE", base+"files/notes", "")
	b.want(204, "DELETE", base+"files/b", "")
}

// Rules: INSPECT-01.
func TestASessionIsInspected(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.api.rights = everything
	var found stream.Inspection
	if err := json.Unmarshal([]byte(b.want(200, "GET", base+"inspect", "")), &found); err != nil ||
		found.SystemPrompt != "Be brief." || len(found.Layers) != 1 || found.Layers[0].Name != "s" {
		t.Errorf("the answer is %+v, %v", found, err)
	}
}

// waiting is a Turn with calls that wait for approval, and one that does not.
func (b *bench) waiting(name string, arguments ...string) {
	turn := &v1alpha1.Turn{}
	turn.Name, turn.UID, turn.Spec.SubmittedBy = name, "uid", "ann"
	b.planned = nil
	for i, one := range arguments {
		id := fmt.Sprintf("1-%d", i)
		turn.Status.ToolCalls = append(turn.Status.ToolCalls, v1alpha1.ToolCall{
			ID: id, Name: "pay", State: v1alpha1.ToolCallStateWaiting, Reason: v1alpha1.ReasonApproval, CallDigest: "d" + id,
		})
		b.planned = append(b.planned, journal.PlannedCall{ID: id, Arguments: one})
	}
	other := v1alpha1.ToolCall{ID: "1-9", State: v1alpha1.ToolCallStateWaiting}
	turn.Status.ToolCalls = append(turn.Status.ToolCalls, other)
	b.planned = append(b.planned, journal.PlannedCall{ID: "1-9", Arguments: "{}"})
	b.open = append(b.open, turn)
}

func TestTheCallsThatWaitForApprovalAreShownWhole(t *testing.T) {
	b := newBench(t, many(), nil)
	b.api.rights = everything
	long := `{"text":"` + strings.Repeat("x", maxArgumentBytes-100) + `"}`
	b.waiting("t", long, long, `{}`)
	b.lead()
	calls := func(query string) []stream.WaitingCall {
		var found stream.WaitingCalls
		if err := json.Unmarshal([]byte(b.want(200, "GET", base+"calls"+query, "")), &found); err != nil {
			t.Fatal(err)
		}
		return found.Calls
	}
	all := calls("")
	if len(all) != 3 || all[0].Arguments != long || all[0].Omitted || all[0].CallDigest != "d1-0" ||
		all[0].Turn.UID != "uid" || all[0].TurnSubmittedBy != "ann" {
		t.Fatalf("%d calls wait", len(all))
	}
	if all[1].Arguments != "" || !all[1].Omitted {
		t.Errorf("the second call has %d bytes, omitted %v", len(all[1].Arguments), all[1].Omitted)
	}
	if one := calls("?turn=t&call=1-1"); len(one) != 1 || one[0].Arguments != long {
		t.Errorf("the second call alone: %d", len(one))
	}
	if none := calls("?turn=other"); len(none) != 0 {
		t.Errorf("another Turn has %d", len(none))
	}
	b.want(http.StatusMethodNotAllowed, "POST", base+"calls", `{"decision":"Approve"}`)
}

// endless is a body that never ends, and counts what was read of it. A client still reads while its response is there.
type endless struct{ read atomic.Int64 }

// Read implements io.Reader.
func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.api.rights = everything
	b.want(413, "PUT", base+"files/a", strings.Repeat("x", record.MaxValueBytes+1))
	b.want(200, "PUT", base+"files/a", strings.Repeat("x", record.MaxValueBytes))
	body := &endless{}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://"+b.address+base+"files/b", body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.client("own").Do(request)
	if err == nil {
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("the answer is %s", response.Status)
		}
	}
	if read := body.read.Load(); read > 16*record.MaxValueBytes {
		t.Errorf("%d bytes were sent", read)
	}
	b.want(404, "GET", base+"files/b", "")
}

func TestThePlacesOfANamespaceAndOfAUserAreBounded(t *testing.T) {
	b := newBench(t, many(), func(b *bench) {
		b.held, b.entered = make(chan struct{}), make(chan struct{})
	}).lead()
	b.api.rights = everything
	answers := make(chan int, requestPlaces)
	for range requestPlaces / 4 {
		go func() {
			r, _ := b.ask("GET", base+"files", nil)
			answers <- r.StatusCode
		}()
	}
	for range requestPlaces / 4 {
		<-b.entered
	}
	r, _ := b.ask("GET", base+"inspect", nil)
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("one request too many: %s", r.Status)
	}
	if _, ok := b.handler.Requests.hold("another", "u", fileBytes); ok {
		t.Error("a user has more places in another namespace")
	}
	release, ok := b.handler.Requests.hold("another", "v", fileBytes)
	if !ok {
		t.Fatal("another user has no place in another namespace")
	}
	release()
	close(b.held)
	for range requestPlaces / 4 {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a request that was held: %d", code)
		}
	}
	b.want(200, "GET", base+"inspect", "")
}

func TestABodyOfACallerWithoutTheRightIsNotRead(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	connection, err := tls.Dial("tcp", b.address, &tls.Config{RootCAs: b.roots, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	head := "PUT " + base + "files/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer own\r\nContent-Length: 100\r\n\r\n"
	if _, err := connection.Write([]byte(head)); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 403 ") {
		t.Errorf("the answer is %s, %v", raw, err)
	}
}

// Rules: KV-01.
func TestTheStorageOfASession(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.api.rights = everything
	own := storage.Of(b.records, record.Session{Namespace: "ns", Name: "s", UID: "s-uid"})
	other := storage.Of(b.records, record.Session{Namespace: "ns", Name: "s", UID: "another"})
	for n, s := range []*storage.Storage{own, other} {
		if _, err := s.Set(t.Context(), record.Cause{Step: 1, Key: "c"}, fmt.Sprintf("a/%d", n), "one"); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"storage", "storage/values"} {
		var list stream.StoredList
		if err := json.Unmarshal([]byte(b.want(http.StatusOK, http.MethodGet, base+path, "")), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Key != "a/0" || list.Items[0].Service != "values" ||
			list.Items[0].Size != 3 || list.Items[0].Value != nil {
			t.Errorf("%s has %+v", path, list.Items)
		}
	}
	raw := b.want(http.StatusOK, http.MethodGet, base+"storage/values/a/0", "")
	if !strings.Contains(raw, `"value":"one"`) {
		t.Errorf("the value is %s", raw)
	}
	b.want(http.StatusNotFound, http.MethodGet, base+"storage/values/a/1", "")
	b.want(http.StatusNotFound, http.MethodGet, base+"storage/other", "")
	b.want(http.StatusNotFound, http.MethodGet, base+"storage/other/a", "")
	b.want(http.StatusUnprocessableEntity, http.MethodGet, base+"storage/values/a%00", "")
	b.want(http.StatusBadRequest, http.MethodGet, base+"storage", "a body")
}

// Rules: SVC-03.
func TestTheMemoriesOfASession(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.api.rights = everything
	of := func(uid types.UID) *memory.Memories {
		return memory.Of(b.records, record.Session{Namespace: "ns", Name: "s", UID: uid})
	}
	var ids []string
	for n := range 201 {
		cause := record.Cause{Step: int64(n + 1), Key: "c"}
		m, err := of("s-uid").Create(t.Context(), cause, time.Now(), memory.Draft{Content: fmt.Sprintf("number %d", n)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
	}
	foreign, err := of("another").Create(t.Context(), record.Cause{Step: 1, Key: "other"}, time.Now(),
		memory.Draft{Content: "foreign"})
	if err != nil {
		t.Fatal(err)
	}
	list := func(query string) stream.MemoryList {
		t.Helper()
		var list stream.MemoryList
		if err := json.Unmarshal([]byte(b.want(http.StatusOK, http.MethodGet, base+"memory"+query, "")), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	first := list("")
	if len(first.Items) != 200 || !first.More || first.Items[0].Content != "number 200" || first.Items[199].ID != ids[1] {
		t.Fatalf("the first page has %d memories", len(first.Items))
	}
	raw := b.want(http.StatusOK, http.MethodGet, base+"memory/"+ids[7], "")
	if !strings.Contains(raw, `"content":"number 7"`) {
		t.Errorf("the memory is %s", raw)
	}
	b.want(http.StatusNoContent, http.MethodDelete, base+"memory/"+ids[1], "")
	b.want(http.StatusNotFound, http.MethodDelete, base+"memory/"+ids[1], "")
	if second := list("?after=" + ids[1]); len(second.Items) != 1 || second.More || second.Items[0].ID != ids[0] {
		t.Errorf("the second page is %+v", second)
	}
	if all := list("?forgotten=true&after=" + ids[2]); len(all.Items) != 2 || all.Items[0].ForgottenAt == nil {
		t.Errorf("with those that are forgotten there are %+v", all)
	}
	if raw := b.want(http.StatusOK, http.MethodGet, base+"memory/"+ids[1], ""); !strings.Contains(raw, "forgotten_at") {
		t.Errorf("the memory that was forgotten is %s", raw)
	}
	for _, missing := range []string{foreign.ID, "mem-0000000000000000", "part%2F00"} {
		b.want(http.StatusNotFound, http.MethodGet, base+"memory/"+missing, "")
		b.want(http.StatusNotFound, http.MethodDelete, base+"memory/"+missing, "")
	}
	b.want(http.StatusBadRequest, http.MethodGet, base+"memory", "a body")
	if kept, err := of("another").Get(t.Context(), foreign.ID); err != nil || kept.Forgotten != nil {
		t.Errorf("the memory of another Session is %+v, %v", kept, err)
	}
}
