module github.com/holdfast-go/holdfast/store/sqlstore

go 1.25.0

require (
	github.com/holdfast-go/holdfast v0.1.0
	github.com/holdfast-go/holdfast/internal/drivers v0.1.0
)
