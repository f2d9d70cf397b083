// Package loki reads log lines from Loki without gaps and without doubles.
//
// It asks for ranges of time again and again and never follows the tail, which
// loses lines without saying so. Loki orders by the time that an entry states
// and accepts entries that are late, so each range is read with an overlap, in
// two tiers: a fast round every second goes back a few seconds behind the one
// before, a slow round every quarter of a minute goes back an hour. Both hand
// lines to one memory of what was read; what it knows is not handed on again.
//
// # What a proof of reading means here
//
// A round that began at time T and is complete has read every entry that Loki
// had at T, from the start of its range on. A round proves T if its range starts
// no later than the lateness of the source before the T that was proved last:
// then every entry that came to Loki until T is read, unless it is later than
// the lateness. Fast rounds overlap by less than the lateness (seconds against
// two minutes), so every few seconds one of them reaches back that far; only
// these prove, and slow rounds do. What is under way at T has not come to Loki
// yet. The lateness stands for it: conclusions from silence about time t wait
// until t plus the lateness is proved. The hour of the slow rounds adds nothing
// to the proof. It is for entries that are later than the lateness: they are
// matched, can start and clear, and are counted as late.
//
// # State
//
// Nothing before the floor of the memory is read, and every entry behind it that
// was handed on is remembered. The floor follows the start of the ranges. Where
// more matches than the memory holds it rises faster: entries that are later
// than what is remembered are then not seen, which is counted.
package loki
