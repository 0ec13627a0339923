package turns_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// The writes of Records.
const (
	indexWrite = "PUT records"
	blobWrite  = "POST records"
	blobDelete = "DELETE records"
)

// fileCall is a call of a tool for files.
func fileCall(name, arguments string) v1alpha1.SimulatedToolCall {
	return v1alpha1.SimulatedToolCall{Name: name, Arguments: &v1alpha1.JSON{Raw: []byte(arguments)}}
}

// fileScript makes the calls of a step in each Turn whose message has a key, and responds with their results.
func fileScript(steps map[string][]v1alpha1.SimulatedToolCall) v1alpha1.Simulation {
	script := v1alpha1.Simulation{
		Response:  builder.Fixed("Told: {{tool:write_file}}{{tool:edit_file}}{{tool:read_file}}{{tool:delete_file}}"),
		ToolCalls: &v1alpha1.SimulatedToolCalls{},
	}
	for contains, calls := range steps {
		script.ToolCalls.Conditional = append(script.ToolCalls.Conditional, v1alpha1.SimulatedRule{
			Contains: contains, Sequence: []v1alpha1.SimulatedStep{{Calls: calls}},
		})
	}
	return script
}

// filesNamespace is a namespace with a Session that has files.
func filesNamespace(ctx context.Context, steps map[string][]v1alpha1.SimulatedToolCall) string {
	GinkgoHelper()
	namespace := newNamespace(ctx, fileScript(steps))
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}}
	create(ctx, session)
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	return namespace
}

// respond runs a Turn and returns its response.
func respond(ctx context.Context, namespace, turn, input string) string {
	GinkgoHelper()
	create(ctx, builder.Turn(turn).In(namespace).Input(input).Obj())
	Eventually(kit.Turn(ctx, namespace, turn)).Should(capstantest.HaveSucceeded())
	ended, err := kit.Turn(ctx, namespace, turn)()
	Expect(err).NotTo(HaveOccurred())
	return ended.Status.Output
}

// recordsOf are the Records of a namespace.
func recordsOf(ctx context.Context, namespace string) []v1alpha1.Record {
	GinkgoHelper()
	var list v1alpha1.RecordList
	Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

var _ = Describe("The files of a Session", func() {
	// Rules: FS-01.
	DescribeTable(
		"cost, beside a Turn with an act step",
		func(ctx context.Context, calls []v1alpha1.SimulatedToolCall, records []string, reads int) {
			large := `{"path": "/old", "content": "` + strings.Repeat("x", 5_000) + `"}`
			namespace := filesNamespace(ctx, map[string][]v1alpha1.SimulatedToolCall{
				"first":  {fileCall("write_file", large), fileCall("write_file", `{"path": "/small", "content": "a"}`)},
				"second": calls,
			})
			respond(ctx, namespace, "demo-1", "the first")
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
			before, _ := requests.budgeted(namespace)
			readBefore := requests.reads(namespace)["records"]
			respond(ctx, namespace, "demo-2", "the second")
			expectWrites(ctx, namespace, len(before), ConsistOf(slices.Concat(
				beginning, []string{turnWrite, entryWrite, turnWrite, entryWrite}, records, ending)))
			Expect(requests.reads(namespace)["records"]-readBefore).To(Equal(reads), "reads of Records")
		},
		Entry("nothing to read a small file, and a read of the index",
			[]v1alpha1.SimulatedToolCall{fileCall("read_file", `{"path": "/small"}`)}, nil, 1),
		Entry("nothing to read a file above 4 KiB, and two reads",
			[]v1alpha1.SimulatedToolCall{fileCall("read_file", `{"path": "/old"}`)}, nil, 2),
		Entry("1 write for each change of a small file",
			[]v1alpha1.SimulatedToolCall{
				fileCall("write_file", `{"path": "/small", "content": "b"}`),
				fileCall("edit_file", `{"path": "/small", "old_text": "b", "new_text": "c"}`),
			}, []string{indexWrite, indexWrite}, 2),
		Entry("3 writes to replace a file above 4 KiB",
			[]v1alpha1.SimulatedToolCall{
				fileCall("write_file", `{"path": "/old", "content": "`+strings.Repeat("y", 5_000)+`"}`),
			}, []string{blobWrite, indexWrite, blobDelete}, 1),
		Entry("2 writes to delete a file above 4 KiB",
			[]v1alpha1.SimulatedToolCall{fileCall("delete_file", `{"path": "/old"}`)}, []string{indexWrite, blobDelete}, 1),
		Entry("nothing for a change that fails",
			[]v1alpha1.SimulatedToolCall{fileCall("edit_file", `{"path": "/none", "old_text": "b", "new_text": "c"}`)}, nil, 1),
	)

	// Rules: CFG-03, CFG-06, FS-03.
	It("begin with those of its layers, in one operation and once", func(ctx context.Context) {
		namespace := newNamespace(ctx, fileScript(map[string][]v1alpha1.SimulatedToolCall{
			"read":   {fileCall("read_file", `{"path": "/a"}`)},
			"locked": {fileCall("write_file", `{"path": "/locked", "content": "x"}`)},
			"delete": {fileCall("delete_file", `{"path": "/a"}`)},
		}))
		create(ctx, builder.Agent("writer").In(namespace).Layer(v1alpha1.ConfigLayer{
			Capabilities: []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}},
			InitialFiles: []v1alpha1.InitialFile{
				{Path: "/a", Content: "from the Agent"},
				{Path: "/locked", Content: "bG9ja2Vk", Encoding: v1alpha1.FileEncodingBase64, Access: v1alpha1.FileAccessReadOnly},
				{Path: "/large", Content: strings.Repeat("x", 5_000)},
			},
		}).Obj())
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.AgentRef = &v1alpha1.LocalReference{Name: "writer"}
		session.Spec.InitialFiles = []v1alpha1.InitialFile{{Path: "/workspace/a", Content: "from the Session"}}
		create(ctx, session)
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		Expect(recordsOf(ctx, namespace)).To(BeEmpty(), "a Session that uses no files has none")

		before, _ := requests.budgeted(namespace)
		Expect(respond(ctx, namespace, "demo-1", "read")).To(ContainSubstring(`"content":"from the Session"`))
		expectWrites(ctx, namespace, len(before), ConsistOf(slices.Concat(
			beginning, []string{turnWrite, entryWrite, turnWrite, entryWrite}, []string{blobWrite, blobWrite}, ending)))
		Expect(requests.configReads(namespace)).To(Equal(map[string]int{"agents/writer": 1, "sessions/demo": 1}))
		Expect(respond(ctx, namespace, "demo-2", "locked")).To(ContainSubstring("/locked is read-only."))
		Expect(respond(ctx, namespace, "demo-3", "delete")).To(ContainSubstring(`"deleted":true`))
		Expect(
			respond(ctx, namespace, "demo-4", "read"),
		).To(ContainSubstring("/a does not exist."), "it is not written again")
		Expect(requests.configReads(namespace)).To(Equal(map[string]int{"agents/writer": 1, "sessions/demo": 1}))
	})

	// Rules: HOOK-12.
	It("are read by the scripts of hooks, and written in one operation", func(ctx context.Context) {
		namespace := newNamespace(ctx, fileScript(map[string][]v1alpha1.SimulatedToolCall{
			"read": {fileCall("read_file", `{"path": "/copy"}`)},
		}))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}}
		session.Spec.InitialFiles = []v1alpha1.InitialFile{{Path: "/list", Content: "one"}}
		session.Spec.Hooks = []v1alpha1.Hook{{
			Name: "copy", Event: v1alpha1.HookEventUserPromptSubmit, OnError: v1alpha1.HookErrorPolicyBlock,
			Bash: &v1alpha1.BashHook{Command: `[ -e copy ] || { cp list copy; echo " two" >> copy; mkdir d; touch d/e; }`},
		}}
		create(ctx, session)
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		before, _ := requests.budgeted(namespace)
		Expect(respond(ctx, namespace, "demo-1", "read")).To(ContainSubstring(`"content":"one two\n"`))
		// The plan before the hook, the initial files, what the script has written, and the part with the hook's outcome.
		expectWrites(ctx, namespace, len(before), ConsistOf(slices.Concat(
			beginning,
			[]string{turnWrite, entryWrite, turnWrite, entryWrite},
			[]string{turnWrite, blobWrite, indexWrite, entryWrite},
			ending,
		)))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))

		before, _ = requests.budgeted(namespace)
		respond(ctx, namespace, "demo-2", "read")
		expectWrites(ctx, namespace, len(before), ConsistOf(slices.Concat(beginning,
			[]string{turnWrite, entryWrite, turnWrite, entryWrite}, []string{turnWrite, entryWrite}, ending)))
	})

	It("are those of one Session, whose Records go with it", func(ctx context.Context) {
		namespace := filesNamespace(ctx, map[string][]v1alpha1.SimulatedToolCall{
			"write": {fileCall("write_file", `{"path": "/a", "content": "mine"}`)},
			"read":  {fileCall("read_file", `{"path": "/a"}`)},
		})
		other := builder.Session("other").In(namespace).Obj()
		other.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}}
		create(ctx, other)
		respond(ctx, namespace, "demo-1", "write")
		create(ctx, builder.Turn("other-1").In(namespace).Session("other").Input("read").Obj())
		Eventually(kit.Turn(ctx, namespace, "other-1")).Should(capstantest.HaveSucceeded())
		foreign, err := kit.Turn(ctx, namespace, "other-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(foreign.Status.Output).To(ContainSubstring("/a does not exist."))

		records := recordsOf(ctx, namespace)
		Expect(records).To(HaveLen(1))
		session := &v1alpha1.Session{}
		Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
		Expect(records[0].OwnerReferences).To(HaveLen(1))
		Expect(records[0].OwnerReferences[0].UID).To(Equal(session.UID), "the garbage collector deletes it")
	})
})

// holding lets the response to one request not arrive: the request is carried out, and then the connection is lost.
type holding struct {
	mu      sync.Mutex
	matches func(*http.Request) bool
	arrived chan struct{}
	held    int
}

// hold holds the next request that matches. The channel is closed when it was carried out.
func (h *holding) hold(matches func(*http.Request) bool) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.matches, h.arrived = matches, make(chan struct{})
	return h.arrived
}

func (h *holding) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		h.mu.Lock()
		holds := h.matches != nil && h.matches(r)
		arrived := h.arrived
		if holds {
			h.matches = nil
			h.held++
		}
		h.mu.Unlock()
		response, err := next.RoundTrip(r)
		if !holds || err != nil {
			return response, err
		}
		_ = response.Body.Close()
		close(arrived)
		<-r.Context().Done()
		return nil, io.ErrUnexpectedEOF
	})
}

var _ = Describe("The files of a Session whose manager ends", Serial, Ordered, func() {
	held := &holding{}
	another := onOwnServer(capstantest.Options{Transport: held.wrap, NoJobPlayer: true})

	It("are kept, and a change that was in progress happens once", func(ctx context.Context) {
		kit = another()
		namespace := filesNamespace(ctx, map[string][]v1alpha1.SimulatedToolCall{
			"write":  {fileCall("write_file", `{"path": "/notes/a.txt", "content": "x"}`)},
			"double": {fileCall("edit_file", `{"path": "/notes/a.txt", "old_text": "x", "new_text": "xx"}`)},
			"read":   {fileCall("read_file", `{"path": "/notes/a.txt"}`)},
		})
		Expect(respond(ctx, namespace, "demo-1", "write")).To(ContainSubstring(`"created":true`))
		Expect(kit.Stop()).To(Succeed())

		kit = another()
		arrived := held.hold(func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/namespaces/"+namespace+"/records/")
		})
		create(ctx, builder.Turn("demo-2").In(namespace).Input("double").Obj())
		Eventually(arrived).Should(BeClosed())
		stopping := make(chan error, 1)
		go func(ending *capstantest.Kit) { stopping <- ending.Stop() }(kit)
		Eventually(stopping).WithTimeout(time.Minute).Should(Receive(Succeed()))

		kit = another()
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-2")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn).To(capstantest.HaveToolCall("edit_file", v1alpha1.ToolCallStateSucceeded,
			v1alpha1.ToolCallReasonCompleted))
		Expect(turn.Status.Output).To(ContainSubstring(`"replaced":1`), "the first result")
		Expect(respond(ctx, namespace, "demo-3", "read")).To(ContainSubstring(`"content":"xx"`))
		Expect(held.held).To(Equal(1))
	})

	// Rules: TOOL-19.
	DescribeTable(
		"keep an output that is longer than a result, with 1 write for the file and 1 for the index",
		func(ctx context.Context, toolFor func(*site) *v1alpha1.Tool) {
			long := strings.Repeat("found\n", 20_000)
			script := fileScript(map[string][]v1alpha1.SimulatedToolCall{
				"read": {fileCall("read_file", `{"path": "/outputs/demo-1.1-0.txt", "offset": 19999}`)},
				"ask":  {builder.Call("ask")},
			})
			script.Response = builder.Fixed("Told: {{tool:ask}}{{tool:read_file}}")
			namespace := newNamespace(ctx, script, toolFor(newSite(responds(long))))
			session := builder.Session("demo").In(namespace).Obj()
			session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}}
			create(ctx, session)
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))

			before := len(requests.in(namespace))
			respond(ctx, namespace, "demo-1", "ask")
			expectWrites(ctx, namespace, before, ConsistOf(slices.Concat(beginning,
				[]string{turnWrite, entryWrite, turnWrite, entryWrite}, []string{blobWrite, blobWrite}, ending)))
			note := resultOf(ctx, namespace, "demo-1")
			Expect(note).To(ContainSubstring("It is complete in the file /outputs/demo-1.1-0.txt: read on with read_file"))
			read := respond(ctx, namespace, "demo-2", "read")
			Expect(read).To(ContainSubstring(`"total_lines":20000,"content":"found\nfound\n"`))
		},
		Entry("of a request", func(s *site) *v1alpha1.Tool { return s.tool("ask", v1alpha1.SideEffectPure) }),
	)
})

// resultOf is the end of the result of the first call of a Turn.
func resultOf(ctx context.Context, namespace, turn string) string {
	GinkgoHelper()
	for _, entry := range journalOf(ctx, namespace) {
		for _, e := range entry.Events {
			if e.Type != event.TypeToolCompleted || entry.Turn.Name != turn {
				continue
			}
			completed, err := event.Decode[event.ToolCompleted](e)
			Expect(err).NotTo(HaveOccurred())
			text := completed.Result[0].Text
			return text[max(0, len(text)-300):]
		}
	}
	return ""
}
