package otelhold

import "github.com/holdfast-go/holdfast/lease"

// OnEvent is a value for [lease.Options].OnEvent.
func (t *Telemetry) OnEvent(lease.Event) {}
