// Package loki reads log lines from Loki, each exactly once.
//
// It queries time ranges repeatedly. It does not use Loki's tail API, which loses lines without
// reporting it. Loki orders entries by their own timestamps and accepts late ones. Therefore
// ranges overlap, in two tiers. A fast round every 15 seconds reaches back a little behind the
// previous one. A slow round every five minutes reaches back an hour. Both use the same memory
// of entries that were already read, and pass on only new ones.
//
// # The watermark
//
// A complete round that started at time T has read every entry from the start of its range that
// Loki had at T. It advances the watermark to T if its range starts at least the lateness of
// the source before the previous watermark. Every entry that reached Loki by T was then read,
// unless it was later than the lateness. With a fast interval of a few seconds, only some fast
// rounds reach back that far. Only these and the slow rounds advance the watermark. Entries in
// transit at T have not reached Loki yet. The lateness accounts for them, because conclusions
// from missing lines about a time t wait until the watermark is the lateness behind t. The hour
// of the slow rounds does not delay the watermark. It finds entries that are later than the
// lateness. These are matched, can trigger and clear, and are counted as late.
//
// # State
//
// The source reads nothing from before the floor of the memory. It remembers every later entry
// that was passed on. The floor follows the starts of the ranges. If more entries match than
// the memory can hold, the floor rises faster. Entries that are even later are missed, which is
// counted.
package loki
