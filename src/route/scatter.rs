//! Which partitions a query for more than one key needs, and which hosts are asked for which of them.
//!
//! Native routing has one server plan such a query, fails it whole when one host fails, and may lose a partition without a
//! sign while the cluster moves. Here each partition is planned as a key lookup's is, and the partitions that go to one host
//! are asked for in one pinned request. A server narrows a query by one key to that key's partition and refuses a pin that
//! excludes it, so that whatever may amount to one key is left to it.

use super::locate::{Located, PassReason, locate, table_of};
use super::plan::{Candidate, Plan};
use crate::partition::Partition;
use crate::sql::{Class, Literal, Statement};
use crate::view::{ClusterView, HostIndex, HostState, HostView, Role, TableInfo};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A query whose partitions can be asked apart.
#[derive(Clone, Debug)]
pub struct Scattered {
    /// The table.
    pub table: Arc<TableInfo>,
    /// The partitions that may hold rows of the answer, in order; never empty.
    pub partitions: Vec<Partition>,
    /// Most rows of the answer.
    pub limit: Option<u64>,
    /// Where a row has the columns of the key, in key order; `None` where it does not have all of them for certain.
    pub key_at: Option<SmallVec<[usize; 2]>>,
}

/// Finds the table and the partitions of a pull query that is no lookup of one key.
///
/// `IN` and `OR` of the whole key need the partitions of their keys, everything else needs all.
///
/// # Errors
/// The reason why the statement must be routed by the server itself; [`PassReason::NotALookup`] for lookups of one key too.
pub fn scattered(statement: &Statement<'_>, view: &ClusterView) -> Result<Scattered, PassReason> {
    match locate(statement, view) {
        Ok(Located { .. }) => return Err(PassReason::NotALookup),
        Err(PassReason::NotALookup | PassReason::NotTheKey) => {}
        Err(reason) => return Err(reason),
    }
    if !matches!(statement.class, Class::Lookup | Class::LookupMany | Class::LookupMultiColumn | Class::Pull) {
        return Err(PassReason::NotALookup);
    }
    let table = table_of(statement, view)?;
    if statement.limit == Some(0) {
        return Err(PassReason::LimitZero);
    }
    let partitions = match table.key.columns.as_slice() {
        [column] if is_list_of(statement, &column.name) => {
            if !statement.windows.is_empty() && !table.windowed {
                return Err(PassReason::NotTheKey); // columns of that name are not there to bound anything
            }
            let partition = |literal: &Literal<'_>| table.key.partition(&[literal], table.partitions);
            let keys = statement.keys.iter().map(|condition| partition(&condition.literal));
            keys.collect::<Result<BTreeSet<Partition>, _>>().map_err(|_| PassReason::KeyNotComputable)?
        }
        [column] if statement.equalities.may_hold(&column.name) => return Err(PassReason::MayBeOneKey),
        _ => (0..table.partitions.get()).collect(),
    };
    Ok(Scattered {
        partitions: partitions.into_iter().collect(),
        limit: statement.limit,
        key_at: statement.selection.places(table.key.columns.iter().map(|column| column.name.as_str())),
        table: Arc::clone(table),
    })
}

/// Whether the statement is a list of values of that one column.
fn is_list_of(statement: &Statement<'_>, column: &str) -> bool {
    let mut columns = statement.keys.iter().map(|condition| condition.column.metastore());
    statement.class == Class::LookupMany && columns.all(|name| name.as_ref() == column)
}

/// The partitions to ask one host for, and why it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Where.
    pub host: HostIndex,
    /// What for, each with the candidate that the host is for it; never empty.
    pub parts: Vec<(Partition, Candidate)>,
}

impl Group {
    /// The partitions alone.
    pub fn partitions(&self) -> Vec<Partition> {
        self.parts.iter().map(|(partition, _)| *partition).collect()
    }
}

/// Gives each partition to the first candidate of its plan that will do, and groups them by host; what is left over has none.
///
/// With `apart` every partition becomes a group of its own: for answers whose rows do not tell where they come from.
pub fn assign(
    plans: &[(Partition, Plan)],
    apart: bool,
    will_do: impl Fn(&Candidate) -> bool,
) -> (Vec<Group>, Vec<Partition>) {
    let mut groups: BTreeMap<(HostIndex, Partition), Vec<(Partition, Candidate)>> = BTreeMap::new();
    let mut left_over = Vec::new();
    for (partition, plan) in plans {
        match plan.candidates.iter().find(|candidate| will_do(candidate)) {
            Some(candidate) => {
                let key = (candidate.host, if apart { *partition } else { 0 });
                groups.entry(key).or_default().push((*partition, *candidate));
            }
            None => left_over.push(*partition),
        }
    }
    (groups.into_iter().map(|((host, _), parts)| Group { host, parts }).collect(), left_over)
}

/// As what a host holds a partition: while this stays the same, the partition has not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    process: u64,
    role: Role,
}

impl Standing {
    /// As what the host of that name holds the partition; `None` if it does not, or cannot be asked.
    pub fn of(view: &ClusterView, table: &TableInfo, partition: Partition, host: &str) -> Option<Standing> {
        let (index, known) = (0..).zip(&view.hosts).find(|(_, known)| *known.name == *host)?;
        if !fit(known) {
            return None;
        }
        let slot = view.slot(table, partition);
        let replica = slot.replicas.iter().find(|replica| replica.host == index)?;
        Some(Standing { process: known.process(), role: replica.role })
    }
}

fn fit(host: &HostView) -> bool {
    match host.state {
        HostState::Live | HostState::Unknown => true,
        HostState::Starting | HostState::Closing | HostState::Dead => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Preference;
    use super::*;
    use crate::partition::KeySchema;
    use crate::sql::classify;
    use crate::view::test_table;

    fn view(key: &str, format: &str) -> ClusterView {
        let mut table = test_table("T", "CTAS_T_1", 6);
        table.key = KeySchema::parse(key, format).expect("a key");
        let tables = [("T".to_owned(), Arc::new(table))].into();
        ClusterView { tables: Arc::new(tables), catalogue_known: true, ..ClusterView::default() }
    }

    fn partitions(view: &ClusterView, sql: &str) -> Result<Vec<Partition>, PassReason> {
        scattered(&classify(sql), view).map(|scattered| scattered.partitions)
    }

    #[test]
    fn lists_of_keys_need_theirs_and_everything_else_needs_all() {
        let view = view("K STRING", "KAFKA");
        let all = Ok((0..6).collect());
        for (filter, expected) in [
            ("", all.clone()),
            ("WHERE K IN ('k1', 'k2')", Ok(vec![3, 5])),
            ("WHERE K = 'k3' OR K = 'k1' OR K = 'k3'", Ok(vec![4, 5])),
            ("WHERE K IN ('k1', 'k1')", Ok(vec![5])),
            ("WHERE K >= 'k1' AND K < 'k3'", all.clone()),
            ("WHERE V = 5", all.clone()),
            ("WHERE V IN (5, 6)", all.clone()),
            ("WHERE V + 1 > 5 LIMIT 7", all),
            ("WHERE K = 'k1'", Err(PassReason::NotALookup)),
            ("WHERE K = 'k1' AND V > 5", Err(PassReason::MayBeOneKey)),
            ("WHERE K = 'k1' OR V = 5", Err(PassReason::MayBeOneKey)),
            ("WHERE K IN ('k1', 5)", Err(PassReason::KeyNotComputable)),
            ("WHERE K > ${x}", Err(PassReason::MayBeOneKey)),
            ("WHERE V > 5 LIMIT 0", Err(PassReason::LimitZero)),
        ] {
            assert_eq!(partitions(&view, &format!("SELECT * FROM T {filter};")), expected, "{filter}");
        }
        assert_eq!(partitions(&view, "SELECT * FROM X;"), Err(PassReason::UnknownTable));
        assert_eq!(partitions(&view, "SELECT * FROM T EMIT CHANGES;"), Err(PassReason::NotALookup));
    }

    #[test]
    fn several_key_columns_are_never_narrowed_by_servers() {
        let view = view("A STRING, B INT", "JSON");
        for (filter, expected) in [
            ("WHERE (A='x' AND B=1) OR (A='y' AND B=2)", Ok((0..6).collect())),
            ("WHERE A='x'", Ok((0..6).collect())),
            ("WHERE A='x' AND B=1", Err(PassReason::NotALookup)),
        ] {
            assert_eq!(partitions(&view, &format!("SELECT * FROM T {filter};")), expected, "{filter}");
        }
        let at = |sql: &str| scattered(&classify(sql), &view).expect("all").key_at.map(|at| at.to_vec());
        assert_eq!(at("SELECT B, C, A FROM T;"), Some(vec![2, 0]));
        assert_eq!(at("SELECT B, C FROM T;"), None);
    }

    fn candidate(host: HostIndex) -> Candidate {
        Candidate {
            host,
            role: Role::Active,
            preference: Preference::Freshest,
            lag: None,
            age: None,
            complete_until: None,
            sees_absence: true,
        }
    }

    #[test]
    fn partitions_are_grouped_by_the_host_that_is_first_for_them() {
        let plan = |hosts: &[HostIndex]| Plan {
            candidates: hosts.iter().map(|host| candidate(*host)).collect(),
            ..Plan::default()
        };
        let plans = [(0, plan(&[1, 2])), (2, plan(&[0, 1])), (3, plan(&[1, 0])), (4, plan(&[])), (5, plan(&[2]))];
        let hosts = |groups: &[Group]| groups.iter().map(|g| (g.host, g.partitions())).collect::<Vec<_>>();
        let (groups, left_over) = assign(&plans, false, |_| true);
        assert_eq!(hosts(&groups), [(0, vec![2]), (1, vec![0, 3]), (2, vec![5])]);
        assert_eq!(left_over, [4]);
        let (groups, left_over) = assign(&plans, false, |candidate| candidate.host != 1);
        assert_eq!((hosts(&groups), left_over), (vec![(0, vec![2, 3]), (2, vec![0, 5])], vec![4]));
        let (groups, _) = assign(&plans, true, |_| true);
        assert_eq!(hosts(&groups), [(0, vec![2]), (1, vec![0]), (1, vec![3]), (2, vec![5])]);
    }

    #[test]
    fn no_partition_is_lost_or_given_twice() {
        proptest::proptest!(|(hosts in proptest::collection::vec(proptest::collection::vec(0u16..4, 0..4), 1..12), apart: bool)| {
            let plan = |hosts: &Vec<u16>| Plan {
                candidates: hosts.iter().map(|host| candidate(*host)).collect(),
                ..Plan::default()
            };
            let plans: Vec<_> = (0..).zip(hosts.iter().map(plan)).collect();
            let (groups, left_over) = assign(&plans, apart, |candidate| candidate.host != 3);
            let mut all: Vec<Partition> = groups.iter().flat_map(Group::partitions).chain(left_over).collect();
            all.sort_unstable();
            proptest::prop_assert_eq!(all, (0..hosts.len() as u32).collect::<Vec<_>>());
        });
    }

    #[test]
    fn the_partition_of_a_rows_key_is_that_of_the_lookup() {
        use super::super::Key;
        for (key, value, literal) in
            [("K STRING", r#"["k1"]"#, "'k1'"), ("K INT", "[-7]", "-7"), ("K DOUBLE", "[1.5]", "1.5e0")]
        {
            let view = view(key, "KAFKA");
            let values: Vec<serde_json::Value> = serde_json::from_str(value).expect("values");
            let of_row = Key::from_values(&view.tables["T"], &values).expect("a key").partition(&view.tables["T"]);
            let sql = format!("SELECT * FROM T WHERE K = {literal};");
            assert_eq!(of_row, locate(&classify(&sql), &view).map(|located| located.partition).ok(), "{key}");
        }
    }
}
