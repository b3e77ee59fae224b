package waiting

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a batch poll confirms what a later read has shown", "batchpoll.go",
			"look.answered < s.last.began &&",
			"look.answered >= 0*s.last.began &&",
			"TestBatchPollProof"},
		{"a tag counts that was answered after the read", "batchpoll.go",
			"run.since < look.began &&",
			"run.since != 0 &&",
			"TestBatchPollProof"},
		{"a client that waits again does not say so", "queue.go",
			"	l.Notified = \"\" // the caller has the turn\n",
			"",
			"TestWaitThatBeginsWhileTheLastEnds"},
	})
}
