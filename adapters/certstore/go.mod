module github.com/holdfast-go/holdfast/adapters/certstore

go 1.25.0
