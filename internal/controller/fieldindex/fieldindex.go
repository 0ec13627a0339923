// Package fieldindex has the fields by which the cache finds objects. Each costs memory for every object of its kind,
// so that all of them are here.
package fieldindex

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
)

// Indexed fields of the cache.
const (
	// UID finds a Turn by its own UID.
	UID = "uid"
	// TurnName finds the ToolResults for a Turn.
	TurnName = "turnName"
	// SessionName finds the Turns of a Session, and the Schedules that name one.
	SessionName = "sessionName"
	// OpenTurn finds the Turns of a Session that have not ended: a long conversation leaves many finished Turns, which
	// are irrelevant.
	OpenTurn = "openTurn"
	// TurnUID finds the Jobs and the pods of a Turn.
	TurnUID = "turnUID"
	// CallerUID finds the Sessions of sub-agents by the UID of the Turn that has called them.
	CallerUID = "callerUID"
	// ScheduleUID finds the Turns and the Sessions that were created for a Schedule.
	ScheduleUID = "scheduleUID"
	// TaskID finds the pods of a background task, and the Session that it belongs to until its end was delivered. With
	// AnyTask it finds all Sessions with such tasks.
	TaskID  = "taskID"
	AnyTask = "any"
	// TaskOwner finds the Jobs of the background tasks of a Session by its UID.
	TaskOwner = "taskOwner"
	// ModelName finds the Agents and the Harnesses whose layer names a Model, and the Capabilities with a blueprint that
	// does.
	ModelName = "modelName"
	// Limits finds the Models that state limits, with the value Stated.
	Limits = "limits"
	Stated = "stated"
	// FallbackName finds the Models that fall back to a Model.
	FallbackName = "fallbackName"
	// ToolName finds the Agents, the Harnesses and the Capabilities that name a Tool.
	ToolName = "toolName"
	// MCPServerName finds the Agents, the Harnesses and the Capabilities that name an MCPServer.
	MCPServerName = "mcpServerName"
	// CapabilityName finds the Agents and the Harnesses whose layer names a Capability, and the Capabilities that depend
	// on it.
	CapabilityName = "capabilityName"
	// ParentName finds the Harnesses that build on another one.
	ParentName = "parentName"
)

// Index is a field that the cache finds objects of a kind by.
type Index struct {
	// Object of the kind that is indexed.
	Object client.Object
	// Field is the name of the index.
	Field string
	// Values returns the indexed values of an object.
	Values client.IndexerFunc
}

// All returns the indexes of all kinds.
func All() []Index {
	return slices.Concat(ofRuns(), ofSchedules(), ofLayers(), ofCapabilities())
}

// ofRuns are the indexes of what runs, and of what belongs to it.
func ofRuns() []Index {
	return []Index{
		{&v1alpha1.Turn{}, UID, func(o client.Object) []string { return []string{string(o.GetUID())} }},
		{&v1alpha1.Turn{}, SessionName, func(o client.Object) []string {
			return []string{o.(*v1alpha1.Turn).Spec.SessionRef.Name}
		}},
		{&v1alpha1.Turn{}, OpenTurn, func(o client.Object) []string {
			turn := o.(*v1alpha1.Turn)
			if queue.Finished(turn) {
				return nil
			}
			return []string{turn.Spec.SessionRef.Name}
		}},
		{&batchv1.Job{}, TurnUID, ofLabel(v1alpha1.LabelTurnUID)},
		{&batchv1.Job{}, TaskOwner, func(o client.Object) []string {
			owner := metav1.GetControllerOf(o)
			if owner == nil || o.GetLabels()[v1alpha1.LabelTask] == "" {
				return nil
			}
			return []string{string(owner.UID)}
		}},
		{&corev1.Pod{}, TaskID, ofLabel(v1alpha1.LabelTask)},
		{&v1alpha1.Session{}, TaskID, func(o client.Object) []string {
			var ids []string
			for _, t := range o.(*v1alpha1.Session).Status.BackgroundTasks {
				ids = append(ids, t.ID, AnyTask)
			}
			return ids
		}},
		{&corev1.Pod{}, TurnUID, ofLabel(v1alpha1.LabelTurnUID)},
		{&v1alpha1.Session{}, CallerUID, func(o client.Object) []string {
			of := o.(*v1alpha1.Session).Spec.Origin.SubAgentOf()
			if of == nil {
				return nil
			}
			return []string{string(of.Turn.UID)}
		}},
		{&v1alpha1.ToolResult{}, TurnName, func(o client.Object) []string {
			return []string{o.(*v1alpha1.ToolResult).Spec.TurnRef.Name}
		}},
	}
}

// ofSchedules are the indexes of Schedules, and of what they create.
func ofSchedules() []Index {
	uid := func(of *v1alpha1.ScheduleOrigin) []string {
		if of == nil {
			return nil
		}
		return []string{string(of.Schedule.UID)}
	}
	return []Index{
		{&v1alpha1.Turn{}, ScheduleUID, func(o client.Object) []string {
			return uid(o.(*v1alpha1.Turn).Spec.Origin.ScheduleOf())
		}},
		{&v1alpha1.Session{}, ScheduleUID, func(o client.Object) []string {
			return uid(o.(*v1alpha1.Session).Spec.Origin.ScheduleOf())
		}},
		{&v1alpha1.Schedule{}, SessionName, func(o client.Object) []string {
			if of := o.(*v1alpha1.Schedule).Spec.SessionRef; of != nil {
				return []string{of.Name}
			}
			return nil
		}},
	}
}

// ofLayers are the indexes of Models and of configuration layers.
func ofLayers() []Index {
	return []Index{
		{&v1alpha1.Model{}, FallbackName, func(o client.Object) []string {
			return namesOf(o.(*v1alpha1.Model).Spec.Fallbacks)
		}},
		{&v1alpha1.Model{}, Limits, func(o client.Object) []string {
			if o.(*v1alpha1.Model).Spec.Limits == nil {
				return nil
			}
			return []string{Stated}
		}},
		{
			&v1alpha1.Agent{},
			ModelName,
			func(o client.Object) []string { return modelOf(o.(*v1alpha1.Agent).Spec.ConfigLayer) },
		},
		{
			&v1alpha1.Agent{},
			ToolName,
			func(o client.Object) []string { return namesOf(o.(*v1alpha1.Agent).Spec.Tools) },
		},
		{&v1alpha1.Agent{}, CapabilityName, func(o client.Object) []string {
			return capabilitiesOf(o.(*v1alpha1.Agent).Spec.Capabilities)
		}},
		{&v1alpha1.Harness{}, CapabilityName, func(o client.Object) []string {
			return capabilitiesOf(o.(*v1alpha1.Harness).Spec.Capabilities)
		}},
		{&v1alpha1.Agent{}, MCPServerName, func(o client.Object) []string {
			return namesOf(o.(*v1alpha1.Agent).Spec.MCPServers)
		}},
		{&v1alpha1.Harness{}, MCPServerName, func(o client.Object) []string {
			return namesOf(o.(*v1alpha1.Harness).Spec.MCPServers)
		}},
		{&v1alpha1.Harness{}, ModelName, func(o client.Object) []string {
			return modelOf(o.(*v1alpha1.Harness).Spec.ConfigLayer)
		}},
		{&v1alpha1.Harness{}, ToolName, func(o client.Object) []string {
			return namesOf(o.(*v1alpha1.Harness).Spec.Tools)
		}},
		{&v1alpha1.Harness{}, ParentName, func(o client.Object) []string {
			if parent := o.(*v1alpha1.Harness).Spec.ParentRef; parent != nil {
				return []string{parent.Name}
			}
			return nil
		}},
	}
}

// ofCapabilities are the indexes of Capabilities.
func ofCapabilities() []Index {
	return []Index{
		{&v1alpha1.Capability{}, CapabilityName, func(o client.Object) []string {
			var names []string
			for _, d := range o.(*v1alpha1.Capability).Spec.Dependencies {
				if d.Name != "" {
					names = append(names, d.Name)
				}
			}
			return names
		}},
		{&v1alpha1.Capability{}, ToolName, func(o client.Object) []string {
			spec := &o.(*v1alpha1.Capability).Spec
			names := namesOf(spec.Tools)
			for i := range spec.Blueprints {
				names = append(names, namesOf(spec.Blueprints[i].Tools)...)
			}
			return names
		}},
		{&v1alpha1.Capability{}, ModelName, func(o client.Object) []string {
			var names []string
			for _, b := range o.(*v1alpha1.Capability).Spec.Blueprints {
				if b.ModelRef != nil {
					names = append(names, b.ModelRef.Name)
				}
			}
			return names
		}},
		{&v1alpha1.Capability{}, MCPServerName, func(o client.Object) []string {
			return namesOf(o.(*v1alpha1.Capability).Spec.MCPServers)
		}},
	}
}

// SetUp adds all indexes to a cache.
func SetUp(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range All() {
		if err := indexer.IndexField(ctx, index.Object, index.Field, index.Values); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", index.Object, index.Field, err)
		}
	}
	return nil
}

// ofLabel finds an object by the value of a label.
func ofLabel(name string) client.IndexerFunc {
	return func(o client.Object) []string {
		if value := o.GetLabels()[name]; value != "" {
			return []string{value}
		}
		return nil
	}
}

func modelOf(layer v1alpha1.ConfigLayer) []string {
	if layer.ModelRef == nil {
		return nil
	}
	return []string{layer.ModelRef.Name}
}

// capabilitiesOf are the names of the Capabilities that a layer names.
func capabilitiesOf(references []v1alpha1.CapabilityReference) []string {
	var names []string
	for i := range references {
		if name := references[i].Name; name != "" {
			names = append(names, name)
		}
	}
	return names
}

func namesOf(references []v1alpha1.LocalReference) []string {
	names := make([]string, 0, len(references))
	for _, reference := range references {
		names = append(names, reference.Name)
	}
	return names
}
