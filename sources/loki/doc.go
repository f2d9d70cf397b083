// Package loki reads log lines from Loki, each exactly once.
//
// It queries time ranges repeatedly. It does not use Loki's tail API, which loses lines
// without reporting it. Loki orders entries by their own timestamps and accepts late ones.
// Therefore the ranges overlap. A round is one pass over a time range. A fast round every 15
// seconds starts a little before the end of the previous round. A slow round every five
// minutes reaches back an hour. Both use the same memory of the entries that were already
// read, and pass on only new entries.
//
// # The watermark
//
// The lateness of the source is the longest delay with which an entry may reach Loki and still
// count before a decision. A complete round that started at time T has read every entry in its
// range that Loki had at T. It advances the watermark to T if its range starts at least the
// lateness before the previous watermark. Every entry that reached Loki by T was then read,
// unless its delay exceeded the lateness. If the fast interval is a few seconds, only some
// fast rounds reach back that far, and only these and the slow rounds advance the watermark.
// An entry may still be on its way to Loki at T. Therefore a decision that depends on missing
// lines at a time t waits until the watermark is at least the lateness after t. The watermark
// does not wait for the hour that slow rounds reach back. Slow rounds find entries whose delay
// exceeded the lateness. These entries are matched, can trigger and clear, and are counted as
// late.
//
// # State
//
// The memory has a floor, which is a time. The source reads no entry from before the floor,
// and remembers every later entry that was passed on. The floor follows the starts of the
// ranges. If more entries match than the memory can hold, the floor rises faster. An entry
// from before the floor that arrives afterwards is missed, and this is counted.
package loki
