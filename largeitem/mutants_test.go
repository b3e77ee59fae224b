package largeitem_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, sweepMutants)
}
