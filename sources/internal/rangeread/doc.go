// Package rangeread reads log lines from a server that is queried by time ranges, such as Loki,
// each exactly once. A Dialect describes the server.
//
// The server orders entries by their own timestamps and accepts late ones. Therefore the time ranges that are queried
// overlap. A round is one pass over a time range. A fast round every 15 seconds starts a little before the end of the
// previous round. A slow round every five minutes reaches back an hour. Both use the same memory of the entries that
// were already read, and pass on only new entries.
//
// # The watermark
//
// The lateness of the source is the longest delay with which an entry may become visible in responses and still count
// before a decision. A complete round that started at time T has read every entry in its range that was visible at T.
// It advances the watermark to T if its range starts at least the lateness before the previous watermark. Every entry
// that was visible by T was then read, unless its delay exceeded the lateness. If the fast interval is a few seconds,
// only some fast rounds reach back that far, and only these and the slow rounds advance the watermark. An entry may
// still be on its way at T. Therefore a decision that depends on missing lines at a time t waits until the watermark is
// at least the lateness after t. The watermark does not wait for the hour that slow rounds reach back. Slow rounds find
// entries whose delay exceeded the lateness. These entries are matched, can trigger and clear, and are counted as late.
//
// # State
//
// The memory has a floor, which is a time. The source reads no entry from before the floor, and remembers every later
// entry that was passed on. The floor follows the starts of the ranges. If more entries match than the memory can hold,
// the floor rises faster. An entry from before the floor that arrives afterwards is missed, and this is counted.
package rangeread
