// Package journal is the append-only journal of a Session, on a store that can read an entry by its ordinal and create
// one that does not exist.
//
// # Guarantees
//
// Every step of a Turn is closed by exactly one final entry, whichever process writes it and whichever dies. A writer
// has read every entry since the step was opened before it creates its own at the first free ordinal; so the store's
// create decides every race, and the loser finds the winner's entry and adopts it. Ordinals have no gaps. A create with
// an unknown outcome is resolved by reading the same ordinal again and is only ever retried there, with the same
// content.
//
// # Parts
//
// An entry takes at most MaxEntryBytes. A larger step is written as several entries: parts that are not final, and the
// final one, which names the ordinals of its parts. A part that no final entry names does not count: its writer died
// halfway. An event (or planned call) that is too large for one entry is written as several events of the same id,
// whose data is text; concatenated, the texts are the data.
//
// A result of a client tool that comes before its step is complete is such a part too, which holds the result. Of
// several results for one call the first in the journal counts.
//
// The outcomes of calls that are only in the memory of a process are recorded together, in such a part, when their step
// begins to wait. So they survive the process, which need not hold them any more.
//
// A call that must start at most once is claimed before it starts, by a part that no final entry names, and its result
// is settled when it ends. The outcome of a claim without a result is unknown to every process but its holder.
//
// # Checkpoints
//
// Every ordinal that is a multiple of 64 holds a checkpoint. The one at 64c summarizes the entries from
// 64(c-lowbit(c))+1 on, as in a Fenwick tree, so that a reader without a cache needs one checkpoint for each bit of c
// that is set, at most 63 entries after the last checkpoint, and one read that finds nothing. A checkpoint whose
// transcript would be too large summarizes less: the next smaller power of two, at worst nothing, and the reader reads
// the missing entries. Parts that a final entry names across a checkpoint are read in addition.
package journal
