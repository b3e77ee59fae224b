// Package metrics counts what the clients and the stores of a program do, for Prometheus.
package metrics
