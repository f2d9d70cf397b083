package daemon

import (
	"time"

	"crowsnest/daemon/inforce"
	"crowsnest/daemon/monitor"
	"crowsnest/matcher"
)

// quarantineCostly quarantines rules that cost too much, and returns all quarantined rules. The
// engine then concludes nothing from the absence of their lines.
func (d *Daemon) quarantineCostly(now time.Time) []matcher.Quarantined {
	program := d.pipe.rules.Load().Program
	if cpu, ok := inforce.ProcessCPU(); ok && d.guard.IsDue(now) {
		for _, c := range d.guard.FindCostly(now, cpu, program.Costs()) {
			program.Quarantine(c.Rule, matcher.ReasonCost)
			log := d.component("rules")
			log.Error().Str("rule", c.Rule.Alert).Str("reason", string(matcher.ReasonCost)).
				Float64("cpu", c.Share).Msg("rule is quarantined: " + monitor.QuarantineReason(matcher.ReasonCost))
		}
	}
	for _, r := range d.engine.Quarantined() {
		program.Quarantine(r, matcher.ReasonPanic)
	}
	quarantined := program.Quarantined()
	for _, g := range quarantined {
		d.engine.Suspend(g.Rule, now)
	}
	return quarantined
}
