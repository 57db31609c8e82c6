//! Which partition a lookup needs.

use crate::partition::Partition;
use crate::sql::{Class, Literal, Statement};
use crate::view::{ClusterView, TableInfo};
use smallvec::SmallVec;
use std::sync::Arc;

/// A lookup whose partition is known.
#[derive(Clone, Debug)]
pub struct Located {
    /// The table.
    pub table: Arc<TableInfo>,
    /// The partition of the key.
    pub partition: Partition,
}

/// Why a statement is left to the server's own routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassReason {
    /// Its class is not a single-key lookup.
    NotALookup,
    /// `/ksql` has not been read yet.
    CatalogueUnknown,
    /// The table is in no catalogue.
    UnknownTable,
    /// The source is a stream, not materialised, or not fully described.
    NotRoutable,
    /// The columns compared are not exactly the key's.
    NotTheKey,
    /// The bytes of the key cannot be computed with certainty.
    KeyNotComputable,
    /// The client routes for itself (`request.ksql.query.pull.*` properties).
    ClientPinned,
    /// Its server may narrow it to one key, and then refuses a pin to other partitions than that key's.
    MayBeOneKey,
    /// `LIMIT 0`.
    LimitZero,
    /// A server is too old to refuse a wrong pin, or its version is not known yet.
    VersionUnsuited,
    /// Which servers hold the partitions is not known.
    PlacementUnknown,
    /// The format that the client asks for is not one whose answers are put together.
    FormatNotMerged,
    /// A part of the answer exceeds `requests.scatter_part`.
    AnswerTooLarge,
    /// `requests.scatter_memory` is taken by other answers.
    MemoryTaken,
    /// A part took longer than `requests.deadline`.
    TooSlow,
}

impl PassReason {
    /// The label in metrics, access records and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            PassReason::NotALookup => "not_a_lookup",
            PassReason::CatalogueUnknown => "catalogue_unknown",
            PassReason::UnknownTable => "unknown_table",
            PassReason::NotRoutable => "not_routable",
            PassReason::NotTheKey => "not_the_key",
            PassReason::KeyNotComputable => "key_not_computable",
            PassReason::ClientPinned => "client_pinned",
            PassReason::MayBeOneKey => "may_be_one_key",
            PassReason::LimitZero => "limit_zero",
            PassReason::VersionUnsuited => "version_unsuited",
            PassReason::PlacementUnknown => "placement_unknown",
            PassReason::FormatNotMerged => "format_not_merged",
            PassReason::AnswerTooLarge => "answer_too_large",
            PassReason::MemoryTaken => "memory_taken",
            PassReason::TooSlow => "too_slow",
        }
    }

    /// What such a query is, for people.
    pub fn describe(self) -> &'static str {
        match self {
            PassReason::NotALookup => "a query for more than one key",
            PassReason::CatalogueUnknown => "a query before any table is known",
            PassReason::UnknownTable => "a query of an unknown table",
            PassReason::NotRoutable => "a query of a source that is not routed (GET /tables tells why)",
            PassReason::NotTheKey => "a query by other columns than the key's",
            PassReason::KeyNotComputable => "a query of a key whose partition cannot be computed",
            PassReason::ClientPinned => "a query that steers its routing itself",
            PassReason::MayBeOneKey => "a query that its server may narrow to one key",
            PassReason::LimitZero => "a query with LIMIT 0",
            PassReason::VersionUnsuited => "a query while a server is too old for it or of unknown version",
            PassReason::PlacementUnknown => "a query while nobody tells which servers hold its partitions",
            PassReason::FormatNotMerged => "a query for more than one key in this format",
            PassReason::AnswerTooLarge => "a query whose answer is larger than requests.scatter_part allows",
            PassReason::TooSlow => "a query that takes longer than requests.deadline",
            PassReason::MemoryTaken => "a query while other answers take all of requests.scatter_memory",
        }
    }
}

/// The table that a statement reads.
///
/// # Errors
/// When it is none that can be routed, as far as is known.
pub(super) fn table_of<'v>(statement: &Statement<'_>, view: &'v ClusterView) -> Result<&'v Arc<TableInfo>, PassReason> {
    let source = statement.source.ok_or(PassReason::NotALookup)?.metastore();
    view.tables.get(source.as_ref()).ok_or_else(|| {
        match (view.catalogue_known, view.passed_through.contains_key(source.as_ref())) {
            (false, _) => PassReason::CatalogueUnknown,
            (true, true) => PassReason::NotRoutable,
            (true, false) => PassReason::UnknownTable,
        }
    })
}

/// Finds the table and partition of a single-key lookup.
///
/// # Errors
/// The reason why the statement must be routed by the server itself.
pub fn locate(statement: &Statement<'_>, view: &ClusterView) -> Result<Located, PassReason> {
    if !matches!(statement.class, Class::Lookup | Class::LookupMultiColumn) {
        return Err(PassReason::NotALookup);
    }
    let table = table_of(statement, view)?;
    let literals = key_literals(statement, table)?;
    let partition = table.key.partition(&literals, table.partitions).map_err(|_| PassReason::KeyNotComputable)?;
    Ok(Located { table: Arc::clone(table), partition })
}

/// The literals in the order of the key's columns, if each column is compared exactly once and nothing else is.
///
/// # Errors
/// [`PassReason::NotTheKey`] if not.
pub fn key_literals<'s, 'a>(
    statement: &'s Statement<'a>,
    table: &TableInfo,
) -> Result<SmallVec<[&'s Literal<'a>; 2]>, PassReason> {
    let columns = &table.key.columns;
    if statement.keys.len() != columns.len() || (!statement.windows.is_empty() && !table.windowed) {
        return Err(PassReason::NotTheKey);
    }
    columns
        .iter()
        .map(|column| {
            let mut of_column = statement.keys.iter().filter(|c| c.column.metastore().as_ref() == column.name);
            match (of_column.next(), of_column.next()) {
                (Some(condition), None) => Ok(&condition.literal),
                _ => Err(PassReason::NotTheKey),
            }
        })
        .collect()
}
