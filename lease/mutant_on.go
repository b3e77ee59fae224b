//go:build mutant

package lease

import "os"

var mutant = os.Getenv("HOLDFAST_MUTANT")
