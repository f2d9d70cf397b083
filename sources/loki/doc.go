// Package loki reads log lines from Loki, each exactly once.
//
// It queries time ranges repeatedly. It does not use Loki's tail API, which loses
// lines without reporting it. Loki orders entries by their own timestamps and accepts
// late ones, so each range overlaps the previous one, in two tiers: a fast round every
// 15 seconds reaches back behind the previous one, and a slow round every five minutes
// reaches back an hour. Both check entries against one memory of those
// that were read, and pass on only new ones.
//
// # The watermark
//
// A complete round that started at time T has read every entry that Loki had at T,
// from the start of its range on. It advances the watermark to T if its range starts
// at most the lateness of the source before the previous watermark: then every entry
// that reached Loki by T was read, unless it is later than the lateness. With a
// fast interval of a few seconds, only some fast rounds reach back that far, and only
// these and the slow rounds advance the watermark. Entries in transit at T have not reached Loki yet. The lateness accounts
// for them: absence-based conclusions about time t wait for the watermark to reach t
// plus the lateness. The hour of the slow rounds does not delay the watermark. It
// covers entries that are later than the lateness: they are matched, can trigger and
// clear, and are counted as late.
//
// # State
//
// The source reads nothing before the floor of the memory, and remembers every entry
// after it that was passed on. The floor follows the starts of the ranges. If more
// entries match than the memory can hold, the floor rises faster: entries that are
// later than that are missed, which is counted.
package loki
