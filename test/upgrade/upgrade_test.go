package upgrade_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/controller"
	journalkubernetes "github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Turn that began under an earlier build", func() {
	builds, err := filepath.Glob("testdata/*")
	if err != nil || len(builds) == 0 {
		panic("there is no record of an earlier build in testdata")
	}
	for _, build := range builds {
		Describe(filepath.Base(build), func() {
			It("ends when the manager was replaced during a model call", func(ctx context.Context) {
				s := load(ctx, build, "reasoning")
				s.expectAnswered(ctx, "demo-1", 0)
				s.expectAnswered(ctx, "demo-2", 0)
			})
			It("has its own beginning when that build was rolled back to, and admitted it", func(ctx context.Context) {
				var loadedAt time.Time
				s := load(ctx, build, "reasoning", func(s *loaded) {
					loadedAt = time.Now()
					s.admitByMerge(ctx, "demo-1")
				})
				s.expectAnswered(ctx, "demo-1", 0)
				s.expectAnswered(ctx, "demo-2", 0)
				turn, err := s.kit.Turn(ctx, s.namespace, "demo-1")()
				Expect(err).NotTo(HaveOccurred())
				Expect(turn.Status.Summary.StartedAt.Time).To(BeTemporally(">=", loadedAt))
			})
			It("ends when its calls were planned and no Job was made", func(ctx context.Context) {
				s := load(ctx, build, "planned")
				s.expectAnswered(ctx, "demo-1", 2)
				s.expectJobs(ctx, 2)
			})
			It("ends when its pod was recorded and not let go", func(ctx context.Context) {
				s := load(ctx, build, "gated")
				s.expectAnswered(ctx, "demo-1", 1)
				s.expectJobs(ctx, 1)
			})
			It("ends with the results of the tools that ran on meanwhile", func(ctx context.Context) {
				s := load(ctx, build, "running")
				s.expectAnswered(ctx, "demo-1", 2)
				s.expectJobs(ctx, 2)
			})
			It("ends when it waited for a client, with the result that was there before", func(ctx context.Context) {
				s := load(ctx, build, "waiting")
				Eventually(s.kit.Turn(ctx, s.namespace, "demo-1")).Should(capstantest.WaitForTools("ask"))
				last := "And no."
				Expect(
					s.kit.Client.Create(ctx, builder.ToolResult("second", "1-1").In(s.namespace).Result(last).Obj()),
				).To(Succeed())
				s.expectAnswered(ctx, "demo-1", 2)
				turn, err := s.kit.Turn(ctx, s.namespace, "demo-1")()
				Expect(err).NotTo(HaveOccurred())
				Expect(turn.Status.ToolCalls).To(HaveExactElements(HaveField("Preview", "Yes."), HaveField("Preview", "And no.")))
				// The script lets the next Turn ask as well.
				Eventually(s.kit.Turn(ctx, s.namespace, "demo-2")).Should(capstantest.WaitForTools("ask", "ask"))
			})
			It("and ended there stays as it is, and is known by its name", func(ctx context.Context) {
				s := load(ctx, build, "finished")
				before, err := s.kit.Turn(ctx, s.namespace, "demo-1")()
				Expect(err).NotTo(HaveOccurred())
				Consistently(
					s.kit.Turn(ctx, s.namespace, "demo-1"),
				).WithTimeout(time.Second).
					Should(HaveField("ResourceVersion", before.ResourceVersion))
				Expect(s.kit.Client.Delete(ctx, before.DeepCopy())).To(Succeed())
				again := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "demo-1"}, Spec: before.Spec}
				Expect(s.kit.Client.Create(ctx, again)).To(Succeed())
				Eventually(s.kit.Turn(ctx, s.namespace, "demo-1")).Should(capstantest.HaveSucceeded())
				turn, err := s.kit.Turn(ctx, s.namespace, "demo-1")()
				Expect(err).NotTo(HaveOccurred())
				Expect(
					turn.Status.Conditions,
				).To(
					ContainElement(
						And(HaveField("Type", v1alpha1.ConditionSucceeded), HaveField("Reason", v1alpha1.ReasonAlreadyRan)),
					),
				)
			})
		})
	}
})

// loaded is a scene of an earlier build in a new cluster, with this build at work on it.
type loaded struct {
	client    client.Client
	kit       *capstantest.Kit
	namespace string
}

// expectAnswered waits for the response and checks the number of calls.
func (s *loaded) expectAnswered(ctx context.Context, turn string, calls int) {
	GinkgoHelper()
	Eventually(s.kit.Turn(ctx, s.namespace, turn)).Should(capstantest.HaveSucceeded())
	got, err := s.kit.Turn(ctx, s.namespace, turn)()
	Expect(err).NotTo(HaveOccurred())
	Expect(got.Status.Output).To(Equal("The answer."))
	Expect(got.Status.ToolCalls).To(HaveLen(calls))
	for _, call := range got.Status.ToolCalls {
		Expect(call.State).To(Equal(v1alpha1.ToolCallStateSucceeded), call.ID+" "+call.Reason+" "+call.Preview)
	}
}

// expectJobs checks the number of Jobs that the earlier build and this one have created in all.
func (s *loaded) expectJobs(ctx context.Context, n int) {
	GinkgoHelper()
	var jobs batchv1.JobList
	Expect(s.kit.Client.List(ctx, &jobs, client.InNamespace(s.namespace))).To(Succeed())
	Expect(jobs.Items).To(HaveLen(n))
}

// admitByMerge makes a Turn, which has not begun, the active one of a Session whose last active Turn was admitted by
// this build an hour ago. The merge patch of an earlier build replaces only the fields that it knows.
func (s *loaded) admitByMerge(ctx context.Context, name string) {
	GinkgoHelper()
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	Expect(s.client.Get(ctx, client.ObjectKeyFromObject(turn), turn)).To(Succeed())
	turn.Status = v1alpha1.TurnStatus{}
	Expect(s.client.Status().Update(ctx, turn)).To(Succeed())
	session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: turn.Spec.SessionRef.Name}}
	Expect(s.client.Get(ctx, client.ObjectKeyFromObject(session), session)).To(Succeed())
	admitted := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	session.Status.ActiveTurn = &v1alpha1.ActiveTurn{
		Name: "demo-0", UID: "an-earlier-one", OpenedAtOrdinal: 1, AdmittedAt: &admitted, AdmittedUID: "an-earlier-one",
	}
	Expect(s.client.Status().Update(ctx, session)).To(Succeed())
	patch := fmt.Appendf(nil, `{"status":{"activeTurn":{"name":%q,"uid":%q}}}`, turn.Name, turn.UID)
	Expect(s.client.Status().Patch(ctx, session, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	Expect(session.Status.ActiveTurn.AdmittedAt).NotTo(BeNil())
}

// load puts a recorded scene into the cluster, changes it, and lets this build go on with it.
func load(ctx context.Context, build, name string, changes ...func(*loaded)) *loaded {
	GinkgoHelper()
	Expect(capstantest.Install(ctx, config)).To(Succeed())
	c, err := client.New(config, client.Options{Scheme: controller.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "upgrade-"}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	l := &loader{client: c, namespace: namespace.Name, renamed: map[string]string{"upgrade-" + name: namespace.Name}}
	l.load(ctx, filepath.Join(build, name+".yaml"))
	s := &loaded{client: c, namespace: namespace.Name}
	for _, change := range changes {
		change(s)
	}
	// Its life ends with the spec, which makes room for that of the next.
	kit, err := capstantest.Start(context.Background(), config, capstantest.Options{
		Jobs: func(capstantest.Call) (string, string, int) { return "worked", "", 0 },
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
	s.kit = kit
	return s
}

// loader creates recorded objects. What the API server and the builds made names from has other values in another
// cluster: UIDs, and the names that follow from them.
type loader struct {
	client    client.Client
	namespace string
	renamed   map[string]string
}

func (l *loader) load(ctx context.Context, file string) {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var recorded []*unstructured.Unstructured
	decoder := k8syaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(sinceNow(text))))
	for {
		document, err := decoder.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(document, &object.Object)).To(Succeed())
		if object.Object != nil {
			recorded = append(recorded, object)
		}
	}
	Expect(recorded).NotTo(BeEmpty(), file)
	for _, object := range recorded {
		l.create(ctx, object)
	}
	// A status may name what was created after its object.
	for _, object := range recorded {
		l.setStatus(ctx, object)
	}
}

// create creates an object and notes what it is called here.
func (l *loader) create(ctx context.Context, recorded *unstructured.Unstructured) {
	GinkgoHelper()
	object := l.translate(recorded)
	switch object.GetKind() {
	case "Model":
		// What was slow so that it could be interrupted is so no more.
		unstructured.RemoveNestedField(object.Object, "spec", "simulation", "latency")
	case "Job":
		l.rename(recorded, object, jobName(object))
		// The API server sets these itself.
		unstructured.RemoveNestedField(object.Object, "spec", "selector")
		for _, label := range []string{"controller-uid", "job-name", batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
			unstructured.RemoveNestedField(object.Object, "spec", "template", "metadata", "labels", label)
		}
	case "JournalEntry":
		ordinal, _, err := unstructured.NestedInt64(object.Object, "spec", "ordinal")
		Expect(err).NotTo(HaveOccurred())
		l.rename(recorded, object, journalkubernetes.EntryName(object.GetOwnerReferences()[0].UID, ordinal))
	}
	object.SetUID("")
	Expect(l.client.Create(ctx, object)).To(Succeed(), object.GetKind()+" "+object.GetName())
	l.renamed[string(recorded.GetUID())] = string(object.GetUID())
}

// rename gives an object a name of this cluster.
func (l *loader) rename(recorded, object *unstructured.Unstructured, name string) {
	l.renamed[recorded.GetName()] = name
	object.SetName(name)
}

// setStatus gives an object the status that was recorded.
func (l *loader) setStatus(ctx context.Context, recorded *unstructured.Unstructured) {
	GinkgoHelper()
	status, found := l.translate(recorded).Object["status"]
	if !found {
		return
	}
	object := l.translate(recorded)
	Expect(l.client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	object.Object["status"] = status
	Expect(l.client.Status().Update(ctx, object)).To(Succeed(), object.GetKind()+" "+object.GetName())
}

// translate puts what was renamed into a copy of an object.
func (l *loader) translate(recorded *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	text, err := recorded.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	var pairs []string
	for before, after := range l.renamed {
		pairs = append(pairs, before, after)
	}
	object := &unstructured.Unstructured{}
	Expect(object.UnmarshalJSON([]byte(strings.NewReplacer(pairs...).Replace(string(text))))).To(Succeed())
	object.SetNamespace(l.namespace)
	return object
}

// jobName is what the Job of a call is called here.
func jobName(job *unstructured.Unstructured) string {
	GinkgoHelper()
	labels := job.GetLabels()
	number := func(label string) int32 {
		n, err := strconv.ParseInt(labels[label], 10, 32)
		Expect(err).NotTo(HaveOccurred())
		return int32(n)
	}
	return jobspec.Name(
		types.UID(labels[v1alpha1.LabelTurnUID]),
		number(v1alpha1.LabelStep),
		labels[v1alpha1.LabelCall],
		number(v1alpha1.LabelAttempt),
	)
}

var recordedTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// sinceNow moves all times of a record so that the newest is the present: what waited or ran when it was recorded has
// done so for as long.
func sinceNow(text []byte) []byte {
	GinkgoHelper()
	var newest time.Time
	parse := func(s []byte) time.Time {
		t, err := time.Parse(time.RFC3339Nano, string(s))
		Expect(err).NotTo(HaveOccurred())
		return t
	}
	for _, found := range recordedTime.FindAll(text, -1) {
		if t := parse(found); t.After(newest) {
			newest = t
		}
	}
	shift := time.Since(newest)
	return recordedTime.ReplaceAllFunc(text, func(s []byte) []byte {
		layout := time.RFC3339
		if bytes.ContainsRune(s, '.') {
			layout = "2006-01-02T15:04:05.000000Z07:00"
		}
		return []byte(parse(s).Add(shift).UTC().Format(layout))
	})
}
