package gocronlock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"another machine leads before the tasks have returned", "elector.go",
			"	t.tasks.Wait()\n",
			"",
			"TestElectorTask"},
		{"all tasks without a name share a lock", "locker.go",
			"key == unnamed",
			`key == ""`,
			"TestTaskWithoutItsLock"},
	})
}
