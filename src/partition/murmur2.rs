//! Kafka's hash of a key, and the partition it leads to.

use super::{Partition, Partitions};

/// The seed of Kafka's producers.
const SEED: u32 = 0x9747_b28c;

/// MurmurHash2's multiplier.
const MULTIPLIER: u32 = 0x5bd1_e995;

/// The partition of a record with these key bytes in a topic of so many partitions, always below `partitions`.
///
/// What Kafka's default partitioner does with a key: MurmurHash2 (32 bits, Austin Appleby), without the sign bit, modulo.
pub fn partition_of(key_bytes: &[u8], partitions: Partitions) -> Partition {
    (murmur2(key_bytes) & 0x7fff_ffff) % partitions
}

fn murmur2(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    // The algorithm takes the length modulo 2^32.
    let mut hash = SEED ^ bytes.len() as u32;
    for word in words {
        hash = hash.wrapping_mul(MULTIPLIER) ^ scramble(u32::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

fn scramble(word: u32) -> u32 {
    let word = word.wrapping_mul(MULTIPLIER);
    (word ^ word >> 24).wrapping_mul(MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    /// Signed hashes from Kafka's own library, one for each length of the rest.
    #[test]
    fn hashes_are_those_of_kafka() {
        for (bytes, signed) in [
            (&[][..], 275_646_681),
            (&[0xd6], -776_372_293),
            (&[0x8e, 0x79], 634_893_274),
            (&[0x9b, 0x49, 0x4b], -272_429_709),
            (&[0x3c, 0x37, 0xb5, 0x72], -94_953_421),
        ] {
            assert_eq!(murmur2(bytes) as i32, signed, "{bytes:x?}");
        }
    }
}
