package controller

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/turn"
)

// listedLayer has the longest lists that the API server accepts. Its names differ from those of other layers.
func listedLayer(of int) v1alpha1.ConfigLayer {
	var layer v1alpha1.ConfigLayer
	layer.NetworkAccess = &v1alpha1.NetworkAccess{}
	for i := range 64 {
		text := func(size int) string {
			unique := fmt.Sprintf("%d-%d-", of, i)
			return unique + longText(size-len(unique))
		}
		access := layer.NetworkAccess
		layer.Tools = append(layer.Tools, v1alpha1.LocalReference{Name: text(253)})
		access.ExemptTools = append(access.ExemptTools, v1alpha1.LocalReference{Name: text(253)})
		access.Allowed = append(access.Allowed, v1alpha1.NetworkPattern(text(64)))
		access.Blocked = append(access.Blocked, v1alpha1.NetworkPattern(text(64)))
		layer.InitialFiles = append(layer.InitialFiles, v1alpha1.InitialFile{Path: text(64), Content: text(4096)})
		if i < 16 {
			layer.Capabilities = append(layer.Capabilities, v1alpha1.CapabilityReference{Builtin: text(63)})
		}
	}
	return layer
}

// indexes are those of the cache for objects of a kind: each value is a key in its namespace, and one in all of them.
func indexes(of client.Object) toolscache.Indexers {
	indexers := toolscache.Indexers{}
	for _, index := range fieldindex.All() {
		if reflect.TypeOf(index.Object) != reflect.TypeOf(of) {
			continue
		}
		indexers[index.Field] = func(object any) ([]string, error) {
			var keys []string
			for _, value := range index.Values(object.(client.Object)) {
				keys = append(keys, "__all_namespaces/"+value, object.(client.Object).GetNamespace()+"/"+value)
			}
			return keys, nil
		}
	}
	return indexers
}

// Lists of Tools, destinations and fallbacks stay whole in the cache, those of Harnesses, Agents and Models with an
// index. Their memory has a bound all the same.
func TestTheListsOfAnObjectTakeABoundedMemory(t *testing.T) {
	const objects = 200
	options := CacheOptions()
	for name, kind := range map[string]struct {
		object func(of int) client.Object
		most   int64
	}{
		"Harness": {
			func(of int) client.Object {
				return &v1alpha1.Harness{Spec: v1alpha1.HarnessSpec{ConfigLayer: listedLayer(of)}}
			},
			72 << 10,
		},
		"Agent": {
			func(of int) client.Object {
				return &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{ConfigLayer: listedLayer(of)}}
			},
			72 << 10,
		},
		"Capability": {
			func(of int) client.Object {
				o := &v1alpha1.Capability{}
				layer := listedLayer(of)
				o.Spec.Tools, o.Spec.InitialFiles = layer.Tools, layer.InitialFiles
				for i := range 4 {
					b := v1alpha1.Blueprint{SystemPrompt: longText(16 << 10)}
					for j := range 16 {
						unique := fmt.Sprintf("%d-%d-%d-", of, i, j)
						b.Tools = append(b.Tools, v1alpha1.LocalReference{Name: unique + longText(253-len(unique))})
					}
					b.ConfigSchema = &v1alpha1.JSON{Raw: []byte(longText(8 << 10))}
					o.Spec.Blueprints = append(o.Spec.Blueprints, b)
				}
				for i := range 16 {
					unique := fmt.Sprintf("%d-%d-", of, i)
					o.Spec.Dependencies = append(o.Spec.Dependencies, v1alpha1.CapabilityDependency{
						Name: unique + longText(63-len(unique)),
					})
					o.Spec.MCPServers = append(o.Spec.MCPServers, v1alpha1.LocalReference{Name: unique + longText(253-len(unique))})
				}
				return o
			},
			160 << 10,
		},
		"Model": {
			func(of int) client.Object {
				var model v1alpha1.Model
				for i := range 8 {
					unique := fmt.Sprintf("%d-%d-", of, i)
					name := unique + longText(253-len(unique))
					model.Spec.Fallbacks = append(model.Spec.Fallbacks, v1alpha1.LocalReference{Name: name})
				}
				return &model
			},
			16 << 10,
		},
		"Session": {
			func(of int) client.Object {
				return &v1alpha1.Session{Spec: v1alpha1.SessionSpec{ConfigLayer: listedLayer(of)}}
			},
			24 << 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexes(kind.object(0)))
			for i := range objects {
				object := kind.object(i)
				object.SetNamespace("ns")
				object.SetName(fmt.Sprintf("a-%d", i))
				if err := store.Add(kept(options, object)); err != nil {
					t.Fatal(err)
				}
			}
			held := heap() - before
			runtime.KeepAlive(store)
			t.Logf("%d take %d KiB", objects, held>>10)
			if held > objects*kind.most {
				t.Errorf("%d take %d bytes, want at most %d each", objects, held, kind.most)
			}
		})
	}
}

// A name that is cut names no Tool, as before.
func TestANameThatNoToolHasIsCutInTheCache(t *testing.T) {
	const longest = 63
	layer := v1alpha1.ConfigLayer{Tools: []v1alpha1.LocalReference{
		{Name: strings.Repeat("t", longest)}, {Name: strings.Repeat("t", longest+1)}, {Name: strings.Repeat("é", 200)},
	}}
	session := kept(CacheOptions(), &v1alpha1.Session{Spec: v1alpha1.SessionSpec{ConfigLayer: layer}}).(*v1alpha1.Session)
	for i, name := range []string{strings.Repeat("t", longest), strings.Repeat("t", longest+1), strings.Repeat("é", 32)} {
		if got := session.Spec.Tools[i].Name; got != name {
			t.Errorf("the cache keeps the name %q, want %q", got, name)
		}
	}
}

// fullestTurn waits with the largest status that the manager writes.
func fullestTurn(of int) *v1alpha1.Turn {
	own := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("demo-%d", of)}}
	own.Status.Plan = &v1alpha1.TurnPlan{Step: 2, Phase: v1alpha1.PlanPhaseAct}
	own.Status.Phase = v1alpha1.TurnPhaseWaitingForToolResults
	for range 6 {
		own.Status.Conditions = append(
			own.Status.Conditions,
			metav1.Condition{Type: longText(24), Status: metav1.ConditionTrue, Reason: longText(24), Message: longText(512)},
		)
	}
	for i := range 64 {
		by := metav1.Now()
		call := v1alpha1.ToolCall{
			ID: fmt.Sprintf("1-%d", i), Name: longText(63), Executor: v1alpha1.ToolExecutorJob,
			SideEffect: v1alpha1.SideEffectAtMostOnce, Policy: v1alpha1.ToolPolicyRequiresApproval, ApproveBy: &by,
			ConcurrencyClass: longText(63), ToolUID: types.UID(longText(36)), ToolDigest: longText(32),
			Timeout: &metav1.Duration{Duration: time.Minute}, Fingerprint: longText(64), CallDigest: longText(64),
			State: v1alpha1.ToolCallStateWaiting, Reason: v1alpha1.ReasonApproval, Preview: longText(100),
			Hints: []v1alpha1.ToolHint{v1alpha1.ToolHintDestructive, v1alpha1.ToolHintOpenWorld},
		}
		if i < 5 {
			call.Arguments = longText(2 << 10)
		}
		own.Status.ToolCalls = append(own.Status.ToolCalls, call)
	}
	return own
}

// A Turn that has ended keeps of its calls what late ToolResults are judged by.
func TestTheStatusOfATurnThatHasEndedIsSmall(t *testing.T) {
	const turns = 200
	for name, test := range map[string]struct {
		policy v1alpha1.ToolPolicy
		most   int64
	}{
		"no call was requested": {"", 6 << 10},
		"every call was":        {v1alpha1.ToolPolicyRequiresApproval, 36 << 10},
	} {
		all := [turns]any{}
		before := heap()
		for i := range all {
			own := fullestTurn(i)
			own.Status.Conditions[0].Type = v1alpha1.ConditionFinished
			for j := range own.Status.ToolCalls {
				own.Status.ToolCalls[j].Policy = test.policy
			}
			all[i] = kept(CacheOptions(), own)
		}
		held := heap() - before
		runtime.KeepAlive(&all)
		t.Logf("%s: %d Turns take %d KiB", name, turns, held>>10)
		if held > turns*test.most {
			t.Errorf("%s: %d Turns take %d bytes, want at most %d each", name, turns, held, test.most)
		}
	}
}

// The limit of begun Turns bounds the memory of those that wait: a status counts once for each 8 KiB.
func TestAWaitingTurnCountsByTheMemoryOfItsStatus(t *testing.T) {
	const turns, perWeight = 200, 8 << 10
	raw, err := json.Marshal(fullestTurn(0).Status)
	if err != nil || len(raw) < 56<<10 || len(raw) >= 64<<10 {
		t.Fatalf("the status takes %d bytes, %v", len(raw), err)
	}
	for name, make := range map[string]func(of int) *v1alpha1.Turn{
		"the largest status": fullestTurn,
		"a usual one": func(of int) *v1alpha1.Turn {
			own := fullestTurn(of)
			own.Status.ToolCalls = own.Status.ToolCalls[:1]
			own.Status.ToolCalls[0].Arguments = longText(200)
			return own
		},
	} {
		t.Run(name, func(t *testing.T) {
			all, weight := [turns]any{}, int64(0)
			before := heap()
			for i := range all {
				own := kept(CacheOptions(), make(i)).(*v1alpha1.Turn)
				own.Status.ToolCalls = append([]v1alpha1.ToolCall{}, own.Status.ToolCalls...)
				weight += turn.Weight(own)
				all[i] = own
			}
			held := heap() - before
			runtime.KeepAlive(&all)
			t.Logf("%d Turns take %d KiB, and count as %d", turns, held>>10, weight)
			if held > weight*perWeight {
				t.Errorf("%d Turns take %d bytes and count as %d", turns, held, weight)
			}
			if name == "a usual one" && weight != turns {
				t.Errorf("%d usual Turns count as %d", turns, weight)
			}
		})
	}
}
