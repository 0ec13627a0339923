//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/terminal"
)

// newOffice is a stage whose default model repeats the message, with a Model for each thing that a Turn may wait for or
// end with. A Turn of the Session brief has one model call.
func newOffice(ctx context.Context) string {
	GinkgoHelper()
	count := toolbox("count", "word-count", v1alpha1.SideEffectAtMostOnce)
	count.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	namespace := newStage(ctx, v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
		Type: v1alpha1.SimulatedResponseTypeEcho, Prefix: "You said: ",
	}}, count, builder.ClientTool("ask-ann").Obj(), builder.AgentTool("helper", "helper").Obj())
	for name, script := range map[string]v1alpha1.Simulation{
		"counting":   builder.Script("Words: {{tool:count}}", calls{call("count", arguments{"text": "one two three"})}),
		"asking":     builder.Script("Ann says {{tool:ask-ann}}", calls{call("ask-ann", arguments{"question": "Yes?"})}),
		"delegating": builder.Script("It found {{tool:helper}}.", calls{call("helper", arguments{"message": "Find"})}),
		"helping":    builder.Script("a needle"),
		"sluggish":   slow(time.Hour, builder.Script("Late.")),
		"broken": {Response: &v1alpha1.SimulatedResponse{
			Type: v1alpha1.SimulatedResponseTypeError, Text: "out of order", Code: v1alpha1.ErrorCodeModelUnavailable,
		}},
	} {
		create(ctx, builder.Model(name).In(namespace).Simulated(script).Obj())
	}
	create(ctx, builder.Harness("helper").In(namespace).Model("helping").Obj())
	create(ctx, builder.Session("deep").In(namespace).Model("delegating").Obj())
	create(ctx, builder.Session("late").In(namespace).Model("sluggish").Obj())
	brief := builder.Session("brief").In(namespace).Obj()
	brief.Spec.MaxIterations = new(int32(1))
	create(ctx, brief)
	return namespace
}

// onlyTurn is the name of the only Turn of a Session.
func onlyTurn(ctx context.Context, namespace, session string) string {
	GinkgoHelper()
	var list v1alpha1.TurnList
	Expect(api.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	list.Items = slices.DeleteFunc(list.Items, func(t v1alpha1.Turn) bool { return t.Spec.SessionRef.Name != session })
	Expect(list.Items).To(HaveLen(1))
	return list.Items[0].Name
}

var _ = Describe("The terminal of a user", func() {
	It("shows each command as it is documented, with its exit code", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newOffice(ctx)
		ann := reach(cluster(), namespace, withCertificate(ctx, namespace, "capstan-edit", "capstan-approve"))
		says := func(t *terminal.Terminal, words ...string) {
			GinkgoHelper()
			for _, w := range words { // states and events come by two connections, in any order
				Eventually(t.Text).Should(MatchRegexp(w))
			}
		}
		ends := func(t *terminal.Terminal, code int, words ...string) {
			GinkgoHelper()
			says(t, words...)
			Expect(t.Code()).To(Equal(code), t.Text())
		}
		leaves := func(t *terminal.Terminal) {
			GinkgoHelper()
			says(t, `── done[^\n]*\n+you +$`)
			t.Type("\x04")
			Expect(t.Code()).To(Equal(0))
		}

		By("talking")
		chat := ann.Open(ctx, "chat", "demo")
		says(chat, "Session demo")
		chat.Type("Hello\n")
		says(chat, "agent      You said: Hello")
		leaves(chat)
		ends(ann.Open(ctx, "ask", "deep", "Find"), 0, "It found a needle.")
		ends(ann.Open(ctx, "tree", onlyTurn(ctx, namespace, "deep")), 0, "Turn deep-", "└─ 1-0")

		By("ending otherwise")
		ends(ann.Open(ctx, "ask", "demo", "Go", "--model", "broken"), 2, "failed: ModelUnavailable")
		ends(ann.Open(ctx, "ask", "brief", "Go", "--model", "delegating"), 5, "MaxTurnRequests")
		ends(ann.Open(ctx, "ask", "late", "Go", "--timeout", "1s"), 4, "goes on. Rejoin it")
		late := onlyTurn(ctx, namespace, "late")
		watch := ann.Open(ctx, "watch", "turn/"+late)
		says(watch, "you        Go")
		ends(ann.Open(ctx, "cancel", late), 0, "is being cancelled")
		Expect(watch.Code()).To(Equal(3))
		ends(ann.Open(ctx, "log", "nothing"), 1, "nothing")

		By("deciding")
		watch = ann.Open(ctx, "watch", "demo")
		says(watch, "Watching Session demo")
		chat = ann.Open(ctx, "chat", "demo", "--model", "counting")
		says(chat, "Session demo")
		chat.Type("Count\n")
		says(chat, "call       1-0  count", "waits for approval", "kubectl capstan -n "+namespace+" approve demo-")
		chat.Interrupt()
		ends(chat, 130, "goes on. Rejoin it")
		chat = ann.Open(ctx, "chat", "demo", "--follow")
		says(chat, "you        Count", "waits for approval")
		approve := ann.Open(ctx, "approve", "session/demo")
		says(approve, "one two three", `Approve 1 call\? \[y/N\]`)
		approve.Type("y\n")
		ends(approve, 0, `Call 1-0 \(count\) approved`)
		says(chat, "agent      Words: 3")
		leaves(chat)
		says(watch, "Count", "waits for approval", "Words: 3", "── done")
		watch.Interrupt()
		Expect(watch.Code()).To(Equal(0))

		ask := ann.Open(ctx, "ask", "demo", "Count", "--model", "counting")
		says(ask, "waits for approval")
		ends(ann.Open(ctx, "reject", "session/demo"), 0, `Call 1-0 \(count\) rejected`)
		ends(ask, 0, "Words: The tool was not executed")

		ask = ann.Open(ctx, "ask", "demo", "Yes or no?", "--model", "asking")
		says(ask, "ask-ann waits for a result")
		ends(ann.Open(ctx, "answer", "session/demo", "--result", "yes"), 0, "1-0")
		ends(ask, 0, "Ann says yes")

		By("reading")
		ends(ann.Open(ctx, "log", "demo"), 0, "you        Hello", "approved   1-0 by user-",
			"result     1-0  count", "Words: 3", "rejected", "Ann says yes")
		ends(ann.Open(ctx, "cost", "demo"), 0, "TURN", "demo-", "Session")
		ends(ann.Open(ctx, "inspect", "demo"), 0, "layers", "Harness base > Session demo", "tool +count +from Tool count")
		ends(ann.Open(ctx, "doctor", "demo"), 0, "kinds", "your permissions", "Session +ready")
		ends(administrator(namespace).Open(ctx, "doctor", "demo"), 0,
			"ok +manager +capstan-manager: 1 of 1 ready", "ok +policies", "ok +Session +ready")
		ends(ann.Open(ctx, "completion", "bash"), 0, "kubectl-capstan")
		ends(ann.Open(ctx, "version"), 0, "commit")
		show("a conversation", "\n"+ann.Run(ctx, "log", "demo").Out)

		By("copying files")
		report := filepath.Join(GinkgoT().TempDir(), "report.txt")
		Expect(os.WriteFile(report, []byte("one\n"), 0o600)).To(Succeed())
		ends(ann.Open(ctx, "files", "cp", report, "demo:/notes/"), 0, "/notes/report.txt created: 4 bytes")
		ends(ann.Open(ctx, "files", "ls", "demo", "-R"), 0, "PATH", "/notes/report.txt +4")
		ends(ann.Open(ctx, "files", "cat", "demo:/notes/report.txt"), 0, "one")
		ends(ann.Open(ctx, "files", "cp", "demo:/notes/report.txt", report+".copy"), 0)
		Expect(os.ReadFile(report + ".copy")).To(BeEquivalentTo("one\n"))

		By("having no way to the manager")
		eve := reach(cluster(), namespace, withoutPort(ctx, namespace, "capstan-edit"))
		noWay := `may not forward a\s+port to it\s+\(create on pods/portforward in the namespace ` + managerNamespace
		ends(eve.Open(ctx, "files", "cp", report, "demo:/other.txt"), 1, noWay)
		ends(eve.Open(ctx, "files", "cat", "demo:/notes/report.txt"), 0, "the Records are read", noWay, "one")
		ends(eve.Open(ctx, "inspect", "demo"), 0, "the objects which you may read are shown", noWay, "layers")
	})

	DescribeTable("permits what the roles permit, and names the role for the rest",
		func(ctx SpecContext, by login, roles []string, allowed string) {
			namespace := newOffice(ctx)
			for session, model := range map[string]string{"guarded": "counting", "asked": "asking", "running": "sluggish"} {
				create(ctx, builder.Session(session).In(namespace).Model(model).Obj())
				create(ctx, builder.Turn(session).In(namespace).Session(session).Obj())
			}
			answered(ctx, namespace, "demo-1")
			Eventually(ctx, turn(namespace, "guarded")).Should(capstantest.WaitForApproval("count"))
			Eventually(ctx, turn(namespace, "asked")).Should(capstantest.WaitForTools("ask-ann"))
			bob := reach(cluster(), namespace, by(ctx, namespace, roles...))
			for _, arguments := range []string{
				"log demo", "watch turn/demo-1", "tree demo-1", "cost demo", "inspect demo", "files ls demo", "ask demo Hi",
				"chat demo", "answer asked --result yes", "approve guarded --yes", "reject guarded", "cancel running",
			} {
				words := strings.Fields(arguments)
				t := bob.Open(ctx, words...)
				if words[0] == "chat" {
					t.Type("Hi\n\x04")
				}
				if strings.Contains(" "+allowed+" ", " "+words[0]+" ") {
					Expect(t.Code()).To(Equal(0), "%s: %s", arguments, t.Text())
					continue
				}
				Expect(t.Code()).To(Equal(1), "%s: %s", arguments, t.Text())
				needed := "edit"
				switch {
				case len(roles) == 0:
					needed = "view" // nothing was found to change
				case words[0] == "approve", words[0] == "reject":
					needed = "approve"
				}
				Expect(t.Text()).To(MatchRegexp(`(?s)forbidden.*The role capstan-%s permits it`, needed), arguments)
			}
		},
		Entry("to edit, with a token", login(withToken), []string{"capstan-edit"},
			"log watch tree cost inspect files ask chat answer cancel", SpecTimeout(specLimit)),
		Entry("to edit, with a certificate, as another user", login(asAnother), []string{"capstan-edit"},
			"log watch tree cost inspect files ask chat answer cancel", SpecTimeout(specLimit)),
		Entry("to view, with a certificate", login(withCertificate), []string{"capstan-view"},
			"log watch tree cost inspect files", SpecTimeout(specLimit)),
		Entry("to do nothing, with a token", login(withToken), nil, "", SpecTimeout(specLimit)),
	)
})

// sentences are words of which each occurs once.
func sentences(words int) string {
	var text []string
	for n := range words {
		text = append(text, fmt.Sprintf("word-%d", n+1))
	}
	return strings.Join(text, " ")
}

var aWord = regexp.MustCompile(`word-\d+\b`)

// wordsOf are the words that a terminal shows, by the calls of the model.
func wordsOf(t *terminal.Terminal) (calls []string) {
	for said := range strings.SplitSeq(t.Text(), "(the model is called again)") {
		calls = append(calls, strings.Join(aWord.FindAllString(said, -1), " "))
	}
	return calls
}

// shownWords is how many words a terminal shows.
func shownWords(t *terminal.Terminal) func() int {
	return func() int { return len(aWord.FindAllString(t.Text(), -1)) }
}

// asksBeside lets users ask for what the manager serves beside events: files, the next input, and calls. Each command
// forwards a port, and notes nothing: what it prints is not read from objects instead.
func asksBeside(ctx context.Context, way *relay, namespace string, ann terminal.User) {
	GinkgoHelper()
	uses := way.uses()
	served := func(r terminal.Result, words string) {
		GinkgoHelper()
		Expect(r.Err).To(BeEmpty())
		Expect(r.Code).To(Equal(0))
		Expect(r.Out).To(MatchRegexp(words))
		Expect(way.uses()).To(BeNumerically(">", uses))
		uses = way.uses()
	}
	served(ann.Pipe(ctx, "one\n", "files", "cp", "-", "demo:/notes/a.txt"), "/notes/a.txt created: 4 bytes")
	served(ann.Run(ctx, "files", "ls", "demo", "-R"), "/notes/a.txt +4")
	served(ann.Run(ctx, "files", "cat", "demo:/notes/a.txt"), "^one\n$")
	served(ann.Run(ctx, "inspect", "demo"), "layers")

	long := strings.Repeat("x", 8<<10) + "end"
	create(ctx, builder.Model("counting").In(namespace).Simulated(
		builder.Script("Words: {{tool:count}}", calls{call("count", arguments{"text": long})})).Obj())
	create(ctx, builder.Session("guarded").In(namespace).Model("counting").Obj())
	create(ctx, builder.Turn("guarded").In(namespace).Session("guarded").Obj())
	Eventually(ctx, turn(namespace, "guarded")).Should(capstantest.WaitForApproval("count"))
	bob := reach(way.cluster(), namespace, withToken(ctx, namespace, "capstan-approve"))
	served(bob.Run(ctx, "approve", "guarded", "--yes"), long)
	Expect(succeeded(ctx, namespace, "guarded").Status.Output).To(Equal("Words: 1"))
}

var _ = Describe("The terminal of a user who chats", alone, Label(hereLabel), func() {
	BeforeEach(func(ctx SpecContext) { rested(ctx) }, NodeTimeout(specLimit))

	// Rules: LLM-04, EVT-02.
	It("shows each word once, through each replica, with the connection cut and the manager killed",
		SpecTimeout(crashLimit), func(ctx SpecContext) {
			leader := settled(ctx)
			strike, survived := killed(ctx, leader)
			follower := replicated(ctx, leader)
			const words = 40
			count := toolbox("count", "word-count", v1alpha1.SideEffectAtMostOnce)
			count.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
			namespace := newStage(ctx, slow(2*time.Second, builder.Script(sentences(words))), count)
			way := newRelay()
			ann := reach(way.cluster(), namespace, withToken(ctx, namespace, "capstan-edit"))
			ask := func(session string, options ...string) *terminal.Terminal {
				GinkgoHelper()
				create(ctx, builder.Session(session).In(namespace).Obj())
				t := ann.Open(ctx, append([]string{"chat", session}, options...)...)
				Eventually(t.Text).Should(ContainSubstring("Session " + session))
				t.Type("Tell me\n")
				return t
			}
			told := func(t *terminal.Terminal, session string) {
				GinkgoHelper()
				Eventually(t.Text).WithTimeout(takeover).Should(ContainSubstring("── done"))
				t.Type("\x04")
				Expect(t.Code()).To(Equal(0))
				Expect(t.Text()).NotTo(ContainSubstring("cannot be used"), "the words must come by the stream")
				said := wordsOf(t)
				output := succeeded(ctx, namespace, onlyTurn(ctx, namespace, session)).Status.Output
				Expect(output).To(Equal(sentences(words)))
				Expect(said[len(said)-1]).To(Equal(output), t.Text())
				for _, before := range said[:len(said)-1] {
					Expect(output).To(HavePrefix(before))
				}
			}

			By("through the leader, cut three times")
			way.lead(leader.pod.Name)
			t := ask("cut")
			for _, n := range []int{5, 15, 25} {
				Eventually(shownWords(t)).WithPolling(promptly).Should(BeNumerically(">=", n))
				way.cut()
			}
			told(t, "cut")
			Expect(way.uses()).To(BeNumerically(">=", 2))
			Expect(wordsOf(t)).To(HaveLen(1))

			By("through the other replica, left and rejoined")
			way.lead(follower)
			t = ask("left")
			Eventually(shownWords(t)).WithPolling(promptly).Should(BeNumerically(">=", 5))
			t.Interrupt()
			Expect(t.Code()).To(Equal(130))
			t = ann.Open(ctx, "chat", "left", "--follow")
			Eventually(t.Text).Should(ContainSubstring("you        Tell me"))
			told(t, "left")
			Expect(way.uses()).To(BeNumerically(">=", 2))

			By("through the other replica, beside the stream")
			way.lead(follower)
			asksBeside(ctx, way, namespace, ann)

			By("through the other replica, while the one that leads is killed")
			t = ask("killed")
			Eventually(shownWords(t)).WithPolling(promptly).Should(BeNumerically(">=", 10))
			Expect(strike()).To(Succeed())
			dead := time.Now()
			told(t, "killed")
			show("answered after the manager was killed", time.Since(dead).Round(time.Millisecond).String())
			show("chat while the manager is killed", "\n"+t.Text())
			Eventually(ctx, survived).Should(Succeed())
		})
})
