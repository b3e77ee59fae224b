package promtext_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/observe/metrics/promtext"
)

func TestValues(t *testing.T) {
	for _, want := range [][][2]string{
		nil,
		{{"lock", "a"}},
		{{"lock", `a",b="c`}, {"reason", "x\\\ny"}, {"store", `\`}},
		{{"lock", `\n`}, {"reason", "=,"}},
	} {
		var labels []string
		for _, pair := range want {
			labels = append(labels, pair[0], pair[1])
		}
		var s promtext.Set
		s.Add(promtext.Acquired, promtext.Labels(labels...), 3)
		got := s.Values()
		if len(got) != 1 || got[0].Name != promtext.Acquired || got[0].Value != 3 || !slices.Equal(got[0].Labels, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
