package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OriginType is the cause for which the manager creates a Session.
// +kubebuilder:validation:Enum=SubAgent;Schedule
type OriginType string

const (
	// OriginTypeSubAgent: a call of a Tool with an agent runs in the Session.
	OriginTypeSubAgent OriginType = "SubAgent"
	// OriginTypeSchedule: a tick of a Schedule with a sessionTemplate runs in the Session.
	OriginTypeSchedule OriginType = "Schedule"
)

// TurnOriginType is the cause for which the manager creates a Turn.
// +kubebuilder:validation:Enum=SubAgent;Task;Schedule
type TurnOriginType string

const (
	// TurnOriginTypeSubAgent: a call of a Tool with an agent runs as the Turn.
	TurnOriginTypeSubAgent TurnOriginType = "SubAgent"
	// TurnOriginTypeTask: a background task has ended, and the Turn delivers its end to the Session.
	TurnOriginTypeTask TurnOriginType = "Task"
	// TurnOriginTypeSchedule: a tick of a Schedule runs as the Turn.
	TurnOriginTypeSchedule TurnOriginType = "Schedule"
)

// SubAgentRetention is how long the Session of a sub-agent is kept.
// +kubebuilder:validation:Enum=Delete;Keep
type SubAgentRetention string

const (
	// SubAgentRetentionDelete deletes the Session after the retention time of Jobs, counted from the end of the Turn that
	// made the call. It is the default.
	SubAgentRetentionDelete SubAgentRetention = "Delete"
	// SubAgentRetentionKeep keeps the Session until the one that it belongs to is deleted.
	SubAgentRetentionKeep SubAgentRetention = "Keep"
)

// ObjectIdentity is the name and the UID of an object of the same namespace.
type ObjectIdentity struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	UID types.UID `json:"uid"`
}

// SubAgentOrigin is the call that a sub-agent runs for.
type SubAgentOrigin struct {
	// session is the Session of the Turn that made the call.
	// +required
	Session ObjectIdentity `json:"session"`
	// turn is the Turn that made the call.
	// +required
	Turn ObjectIdentity `json:"turn"`
	// step of the Turn's plan that made the call, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Step int32 `json:"step"`
	// callID is the id of the call.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	CallID string `json:"callID"`
	// root is the Session at the top of the tree of sub-agents, which a user has created.
	// +required
	Root ObjectIdentity `json:"root"`
	// depth is the number of Sessions above this one, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Depth int32 `json:"depth"`
	// retention is that of the Tool: Delete or Keep.
	// +required
	Retention SubAgentRetention `json:"retention"`
}

// TaskOrigin is the background task whose end a Turn delivers.
type TaskOrigin struct {
	// id of the task.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-z]{16}$`
	// +kubebuilder:validation:MaxLength=16
	ID string `json:"id"`
	// session is the Session that the task belongs to.
	// +required
	Session ObjectIdentity `json:"session"`
	// turn is the Turn that started the task.
	// +required
	Turn ObjectIdentity `json:"turn"`
	// root is the Turn that this one follows from, through background tasks alone. It is no Turn of a task. The tasks
	// that follow from it are limited in number.
	// +required
	Root ObjectIdentity `json:"root"`
}

// ScheduleOrigin is the tick of a Schedule that a Session or a Turn was created for.
type ScheduleOrigin struct {
	// schedule is the Schedule.
	// +required
	Schedule ObjectIdentity `json:"schedule"`
	// tick is the time that the Schedule had set, which is not later than the creation.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Type=string
	Tick metav1.Time `json:"tick"`
}

// Origin is the cause for which the manager has created a Session.
// +kubebuilder:validation:XValidation:rule="(self.type == 'SubAgent') == has(self.subAgent)",message="subAgent must be set with the type SubAgent, and only with it."
// +kubebuilder:validation:XValidation:rule="(self.type == 'Schedule') == has(self.schedule)",message="schedule must be set with the type Schedule, and only with it."
type Origin struct {
	// type of the cause: SubAgent or Schedule.
	// +required
	Type OriginType `json:"type"`
	// subAgent is the call that the sub-agent runs for.
	// +optional
	SubAgent *SubAgentOrigin `json:"subAgent,omitempty"`
	// schedule is the tick that the Session was created for.
	// +optional
	Schedule *ScheduleOrigin `json:"schedule,omitempty"`
}

// ScheduleOf returns the tick that a Session was created for; nil for every other origin, and for none.
func (o *Origin) ScheduleOf() *ScheduleOrigin {
	if o == nil || o.Type != OriginTypeSchedule {
		return nil
	}
	return o.Schedule
}

// SubAgentOf returns the call that a sub-agent runs for; nil for every other origin, and for none.
func (o *Origin) SubAgentOf() *SubAgentOrigin {
	if o == nil || o.Type != OriginTypeSubAgent {
		return nil
	}
	return o.SubAgent
}

// TurnOrigin is the cause for which the manager has created a Turn.
// +kubebuilder:validation:XValidation:rule="(self.type == 'SubAgent') == has(self.subAgent)",message="subAgent must be set with the type SubAgent, and only with it."
// +kubebuilder:validation:XValidation:rule="(self.type == 'Task') == has(self.task)",message="task must be set with the type Task, and only with it."
// +kubebuilder:validation:XValidation:rule="(self.type == 'Schedule') == has(self.schedule)",message="schedule must be set with the type Schedule, and only with it."
type TurnOrigin struct {
	// type of the cause: SubAgent, Task or Schedule.
	// +required
	Type TurnOriginType `json:"type"`
	// subAgent is the call that the sub-agent runs for.
	// +optional
	SubAgent *SubAgentOrigin `json:"subAgent,omitempty"`
	// task is the background task whose end the Turn delivers.
	// +optional
	Task *TaskOrigin `json:"task,omitempty"`
	// schedule is the tick that the Turn was created for.
	// +optional
	Schedule *ScheduleOrigin `json:"schedule,omitempty"`
}

// ScheduleOf returns the tick that a Turn was created for; nil for every other origin, and for none.
func (o *TurnOrigin) ScheduleOf() *ScheduleOrigin {
	if o == nil || o.Type != TurnOriginTypeSchedule {
		return nil
	}
	return o.Schedule
}

// SubAgentOf returns the call that a sub-agent runs for; nil for every other origin, and for none.
func (o *TurnOrigin) SubAgentOf() *SubAgentOrigin {
	if o == nil || o.Type != TurnOriginTypeSubAgent {
		return nil
	}
	return o.SubAgent
}

// TaskOf returns the background task whose end a Turn delivers; nil for every other origin, and for none.
func (o *TurnOrigin) TaskOf() *TaskOrigin {
	if o == nil || o.Type != TurnOriginTypeTask {
		return nil
	}
	return o.Task
}
