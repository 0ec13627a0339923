package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/stored"
)

func (p *program) resources() *cobra.Command {
	var kind, status, output string
	cmd := &cobra.Command{
		Use:   "resources SESSION",
		Short: "List the resources of a Session outside of the cluster",
		Long: `List the resources that a Session has registered, such as sandboxes and browsers, with their states. It takes
the role capstan-view.`,
		Example: `  kubectl capstan resources demo
  kubectl capstan resources demo --kind browser --status active`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if status != "" && string(resource.ParseStatus(status)) != status {
				return usage("--status is active, completed, failed or released")
			}
			return p.listResources(cmd.Context(), arguments[0],
				resource.Filter{Kind: kind, Status: resource.Status(status)}, output)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "List only resources of this kind.")
	cmd.Flags().StringVar(&status, "status", "",
		"List only resources with this status: active, completed, failed or released.")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) listResources(ctx context.Context, session string, filter resource.Filter, output string) error {
	of, err := p.storedOf(ctx, session)
	if err != nil {
		return err
	}
	items, err := of.List(ctx, stored.Resources)
	if err != nil {
		return err
	}
	found, err := selectedResources(items, filter)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printJSON(map[string][]resource.Resource{"items": found})
	}
	if len(found) == 0 {
		return p.out.Lines(text.Of(text.Faint, "no resources are registered"))
	}
	rows := [][]string{{"ID", "KIND", "STATUS", "UPDATED", "METADATA"}}
	for i := range found {
		r := &found[i]
		rows = append(rows, []string{r.ID, r.Kind, string(r.Status), shownTime(&r.Updated), shownMetadata(r.Metadata)})
	}
	return p.out.Lines(text.Table(rows)...)
}

// selectedResources decodes the resources of a list that a filter selects.
func selectedResources(items []stream.StoredItem, filter resource.Filter) ([]resource.Resource, error) {
	found := []resource.Resource{}
	for _, item := range items {
		var r resource.Resource
		if item.Value == nil {
			return nil, errors.New("the manager returned a resource without its value")
		}
		if err := json.Unmarshal([]byte(*item.Value), &r); err != nil {
			return nil, fmt.Errorf("reading resource %q: %w", item.Key, err)
		}
		if r.Status = resource.ParseStatus(string(r.Status)); filter.Selects(&r) {
			found = append(found, r)
		}
	}
	return found, nil
}

// shownMetadata is metadata in one line, by their keys.
func shownMetadata(metadata map[string]string) string {
	shown := make([]string, 0, len(metadata))
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		shown = append(shown, key+"="+beginning(metadata[key]))
	}
	return strings.Join(shown, " ")
}
