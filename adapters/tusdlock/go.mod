module github.com/holdfast-go/holdfast/adapters/tusdlock

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.1.0
	github.com/tus/tusd/v2 v2.9.1
)

require golang.org/x/exp v0.0.0-20250106191152-7588d65b2ba8 // indirect
