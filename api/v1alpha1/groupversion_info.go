package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "capstan.dev", Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion under the name that generated code uses.
	SchemeGroupVersion = GroupVersion

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Agent{}, &AgentList{},
		&Capability{}, &CapabilityList{},
		&Budget{}, &BudgetList{},
		&Harness{}, &HarnessList{},
		&JournalEntry{}, &JournalEntryList{},
		&LeasedResource{}, &LeasedResourceList{},
		&MCPServer{}, &MCPServerList{},
		&Model{}, &ModelList{},
		&Record{}, &RecordList{},
		&Schedule{}, &ScheduleList{},
		&Session{}, &SessionList{},
		&Tool{}, &ToolList{},
		&ToolResult{}, &ToolResultList{},
		&Turn{}, &TurnList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
