package config

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// addPlatform adds the tools of the capability platform (SVC-04); none if no layer names a ServiceAccount. Their calls
// run as Jobs, as that ServiceAccount. Of two tools with the same name the first counts. A configuration that cannot be
// used is a problem of its own, and contributes nothing.
func (r *Resolved) addPlatform(all definition.Set, config string) definition.Set {
	account := r.Effective.ServiceAccountName
	if _, err := builtin.Configured(platform.Capability, config); account == "" || err != nil {
		return all
	}
	for _, t := range builtin.PlatformTools {
		var policy v1alpha1.ToolPolicy
		if t.SideEffect != v1alpha1.SideEffectPure && builtin.PlatformApproves(config) {
			policy = v1alpha1.ToolPolicyRequiresApproval
		}
		if all.Find(t.Name) == nil {
			all = append(all, platformDefinition(t, account, policy))
		}
	}
	return all
}

// platformDefinition is a tool of the capability platform. The digest has the ServiceAccount: a call that was planned
// with another one does not run.
func platformDefinition(t builtin.Tool, account string, policy v1alpha1.ToolPolicy) *definition.Definition {
	timeout := platform.Timeout
	if t.Name == platform.WaitTool {
		timeout = platform.WaitTimeout
	}
	tool := &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: t.Name},
		Spec: v1alpha1.ToolSpec{
			Description: t.Description, SideEffect: t.SideEffect, ConcurrencyClass: t.ConcurrencyClass,
			InputSchema: &v1alpha1.JSON{Raw: []byte(t.InputSchema)}, Policy: policy,
			Job: &v1alpha1.JobTool{
				Command: []string{platform.Command}, ServiceAccountName: account,
				Timeout: &metav1.Duration{Duration: timeout},
			},
		},
	}
	return definition.BuiltinJob(platform.Capability, tool)
}

// usesPlatform reports whether the Session has the capability platform. A blueprint has none of its tools.
func (r *Resolved) usesPlatform() bool {
	return r.blueprint == nil && slices.ContainsFunc(r.Capabilities().Uses, func(u capability.Use) bool {
		return u.ID == platform.Capability
	})
}

// actsAsAccount reports whether the model acts with the rights of a ServiceAccount.
func (r *Resolved) actsAsAccount() bool {
	return r.Effective.ServiceAccountName != "" && r.usesPlatform()
}

// namedModelMessage tells that a Session that acts as a ServiceAccount needs a Model that a layer names.
func (r *Resolved) namedModelMessage() string {
	return fmt.Sprintf("modelRef is not set, and with the capability %s and ServiceAccount %q the default Model is not "+
		"used. Set modelRef in the Session, its Agent or a Harness.", platform.Capability, r.Effective.ServiceAccountName)
}

// platformNotes returns a remark on the capability platform without a ServiceAccount; nothing for none.
func (r *Resolved) platformNotes() []string {
	if r.Effective.ServiceAccountName != "" || !r.usesPlatform() {
		return nil
	}
	return []string{"The capability platform has no tools, because no layer sets serviceAccountName."}
}
