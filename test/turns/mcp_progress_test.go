package turns_test

import (
	"context"
	"encoding/json"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/capstantest"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

var _ = Describe("The progress of a call of an MCPServer", Serial, Ordered, func() {
	var mu sync.Mutex
	var reports []capstantest.LiveEvent
	another := onOwnServer(capstantest.Options{
		EgressAllow: loopback, EgressRoots: testRoots(), OnLiveEvent: func(e capstantest.LiveEvent) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, e)
		},
	})

	// Rules: CTX-03.
	It("is a live event, and costs no write", func(ctx context.Context) {
		kit = another()
		find := sites.Echo("find")
		for i := range 500 {
			find.Reports = append(find.Reports, sdk.ProgressNotificationParams{
				Progress: float64(i + 1), Total: 500, Message: "Searching\u202e.",
			})
		}
		s := newSite(sites.MCPHandler(sites.Stateless, find).ServeHTTP)
		namespace := usingServer(ctx, serverAt(s))
		turn := answered(ctx, namespace)
		Expect(turn.Status.Output).To(Equal(`Told: {"word":"a"}`))
		mu.Lock()
		defer mu.Unlock()
		Expect(reports).NotTo(BeEmpty())
		Expect(len(reports)).To(BeNumerically("<", 50))
		last := 0.0
		for _, e := range reports {
			Expect(e.Turn.UID).To(Equal(turn.UID))
			Expect(e.Session.Namespace).To(Equal(namespace))
			Expect(e.Event.ID).To(BeEmpty())
			var data struct {
				ToolCallID string `json:"tool_call_id"`
				Message    string
				Progress   float64
			}
			Expect(json.Unmarshal(e.Event.Data.Raw, &data)).To(Succeed())
			Expect(data.ToolCallID).To(Equal("1-0"))
			Expect(data.Message).To(Equal("Searching."))
			Expect(data.Progress).To(BeNumerically(">", last))
			last = data.Progress
		}
		raw, err := json.Marshal([]any{turn, journalOf(ctx, namespace)})
		Expect(err).NotTo(HaveOccurred())
		Expect(string(raw)).NotTo(ContainSubstring("Searching"))
	})
})
