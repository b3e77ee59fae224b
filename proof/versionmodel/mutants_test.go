package versionmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
	"github.com/holdfast-go/holdfast/proof/versionmodel"
)

// TestNear visits the nearest states of a system in which two faults together break a rule. Each of
// the two rules makes up for the other in a smaller system.
func TestNear(t *testing.T) {
	c := versionmodel.Config{Writes: n(2, 1), Reads: n(0, 0, 1), Founded: true, Clean: true, Page: 1}
	if r := versionmodel.Search(&c, 650_000); r.Broke != "" {
		t.Error(r.Broke)
	}
}

// TestMutants puts faults into the rules that this model and package s3verstore run.
func TestMutants(t *testing.T) {
	const file = "../../internal/drivers/versionlog/versionlog.go"
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a Get does not wait", file,
			"at <= last || at == v.Snapshot {", "at <= len(v.Entries) || last == len(v.Entries) {",
			"TestHolding/reads_in_pages"},
		{"a Get that waited ignores a later entry that is not recent", file,
			"at <= last || at == v.Snapshot {", "v.Entries[at].Old || at == v.Snapshot {",
			"TestHolding/reads_in_pages"},
		{"a recent entry is named as a snapshot", file,
			"v.Entries[at].Old || at == v.Snapshot {", "v.Entries[at].Old || at >= v.Snapshot {",
			"TestBroken/two_writers_and_a_late_PUT"},
		{"an evaluation begins at the oldest snapshot", file,
			"	for i := len(v.Entries) - 1; i >= 0; i-- {\n		if v.Entries[i].Write && n.Has", "	for i := range v.Entries {\n		if v.Entries[i].Write && n.Has",
			"TestBroken/a_writer_of_two_chains"},
		{"an entry counts whatever its prev is", file,
			"Nonce: e.Nonce, Prev: e.Prev}", "Nonce: e.Nonce, Prev: st.Nonce}",
			"TestBroken/a_writer_of_two_chains"},
		{"snapshots count at first sight", file,
			"	v.Sure = v.newestSnapshot(old)\n", "	v.Sure = v.Snapshot\n",
			"TestBroken/two_writers_and_a_late_PUT"},
		{"one evaluation is enough", file,
			"	case now && old:\n", "	case now || old:\n		return Applied\n	case now && old:\n",
			"TestHolding/two_writers,_lost_replies"},
		{"an entry before the snapshot can be a conflict", file,
			"	case at < v.Snapshot:\n", "	case at < 0:\n",
			"TestHolding/two_writers,_lost_replies"},
		{"an entry with a lower number than the snapshot can be a conflict", file,
			"v.Entries[at].Number < v.Entries[v.Snapshot].Number:", "v.Entries[at].Number < 0:",
			"TestHolding/three_writes,_one_of_them_applied_twice"},
		{"a recent duplicate counts", file,
			"now && old && v.acceptedWithoutRecent(nonce):", "now && old:",
			"TestBroken/a_PUT_that_is_applied_twice,_at_any_time"},
		{"clients remove entries whatever their numbers are", file,
			" && number <= v.Entries[v.Sure].Number", "",
			"TestBroken/a_writer_of_two_chains"},
		{"clients remove each confirmation", file,
			"e.Snapshot.ID))", "e.Snapshot.ID) || !e.Write)",
			"TestHolding/reads_in_pages"},
		{"no client misses an entry, and clients remove entries before any snapshot", file,
			"		v.OldSnapshot, v.OldChain = v.Sure, v.evaluateFrom(v.Sure, nil)\n	}\n",
			"		v.OldSnapshot, v.OldChain = v.Sure, v.evaluateFrom(v.Sure, nil)\n	}\n" +
				"	if v.Sure < 0 {\n		v.Sure = v.Snapshot\n	}\n	v.Torn = v.Snapshot < 0 && !v.founded()\n" +
				"	for i := range v.Entries {\n		v.Torn = v.Torn || v.Entries[i].Snapshot.Number > v.Most\n	}\n",
			"TestNear"},
	})
}
