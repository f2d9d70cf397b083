package matcher

import "time"

// TimeOf returns the time that a physical line states, in its envelope or in
// its text, and false if it states none. The year of a klog line is that of
// now.
func TimeOf(line []byte, now time.Time) (time.Time, bool) { return textTime(line, now) }
