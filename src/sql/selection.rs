//! What a SELECT lists and what its WHERE pins down: what is needed to ask partitions apart and to tell whose rows came.

use super::Name;
use super::filter::Shape;
use super::parser::Parser;
use smallvec::SmallVec;

/// One item of a select list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item<'a> {
    /// `*`, or that of a source.
    All,
    /// One value; the column that it is, if it is nothing more.
    One(Option<Name<'a>>),
    /// The fields of a STRUCT.
    Several,
}

impl<'a> Item<'a> {
    pub(super) fn of(shape: Shape<'a>) -> Self {
        match shape {
            Shape::Column(name) => Item::One(Some(name)),
            _ => Item::One(None),
        }
    }
}

/// What a SELECT lists, as far as the place of a column among a row's values can be told.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection<'a> {
    /// `*`: every column, those of the key first.
    All,
    /// One value an item; the column that it is, if it is nothing more.
    Values(SmallVec<[Option<Name<'a>>; 4]>),
    /// A list that mixes these, or that variables may change.
    Unclear,
}

impl<'a> Selection<'a> {
    pub(super) fn of(items: SmallVec<[Item<'a>; 4]>) -> Self {
        if items.as_slice() == [Item::All] {
            return Selection::All;
        }
        let values = items.iter().map(|item| match item {
            Item::One(column) => Some(*column),
            Item::All | Item::Several => None,
        });
        values.collect::<Option<_>>().map_or(Selection::Unclear, Selection::Values)
    }

    /// Where a row has these columns, in their order; `None` if one is not certainly there.
    ///
    /// `columns` are those of the table's key, in key order and in the metastore's spelling.
    pub fn places<'c>(&self, columns: impl IntoIterator<Item = &'c str>) -> Option<SmallVec<[usize; 2]>> {
        let place = |(number, wanted): (usize, &str)| match self {
            Selection::All => Some(number),
            Selection::Values(values) => {
                values.iter().position(|value| value.is_some_and(|name| name.metastore().as_ref() == wanted))
            }
            Selection::Unclear => None,
        };
        columns.into_iter().enumerate().map(place).collect()
    }
}

/// What a WHERE compares with `=` or `IN`, in whatever part of it: a server may narrow a query to one key by that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Equalities<'a> {
    /// The columns that are compared.
    pub columns: SmallVec<[Name<'a>; 2]>,
    /// Whether something else is compared too, which may amount to a column.
    pub unclear: bool,
}

impl Equalities<'_> {
    /// Whether the column of that name, in the metastore's spelling, may be among what is compared.
    pub fn may_hold(&self, column: &str) -> bool {
        self.unclear || self.columns.iter().any(|name| name.metastore().as_ref() == column)
    }
}

impl<'a> Parser<'a> {
    /// Notes what `=` or `IN` compares, where it stands in WHERE.
    pub(super) fn note_equality(&mut self, left: Shape<'a>, right: Shape<'a>) {
        if !self.filtering {
            return;
        }
        let columns = [left, right].into_iter().filter_map(|side| match side {
            Shape::Column(name) => Some(name),
            _ => None,
        });
        let before = self.equalities.columns.len();
        self.equalities.columns.extend(columns);
        self.equalities.unclear |= self.equalities.columns.len() == before;
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::{Statement, classify};

    fn key_at(text: &str) -> Option<Vec<usize>> {
        classify(text).selection.places(["A", "b"]).map(|places| places.to_vec())
    }

    #[test]
    fn the_places_of_columns_are_told_where_they_are_certain() {
        for (text, places) in [
            ("SELECT * FROM T;", Some(vec![0, 1])),
            ("SELECT T.* FROM T WHERE V > 1;", Some(vec![0, 1])),
            ("SELECT V, `b`, a FROM T;", Some(vec![2, 1])),
            ("SELECT V + 1, T.A X, (`b`) AS V FROM T;", Some(vec![1, 2])),
            ("SELECT A, B FROM T;", None),
            ("SELECT A + 1, `b` FROM T;", None),
            ("SELECT *, A, `b` FROM T;", None),
            ("SELECT S->*, A, `b` FROM T;", None),
            ("SELECT A, `b` FROM T WHERE V = '${x}';", None),
        ] {
            assert_eq!(key_at(text), places, "{text}");
        }
    }

    #[test]
    fn whatever_may_pin_down_a_key_is_seen() {
        let may = |statement: &Statement<'_>| statement.equalities.may_hold("K");
        for (filter, expected) in [
            ("K > 'a'", false),
            ("V = 5 AND K >= 'a'", false),
            ("5 = V OR K <> 'a'", false),
            ("V IN (1, 2)", false),
            ("K BETWEEN 'a' AND 'b'", false),
            ("K = 'a' AND V = 5", true),
            ("V = 5 AND 'a' = k", true),
            ("K IN ('a')", true),
            ("NOT (K = 'a')", true),
            ("K = 1 + 2", true),
            ("K + 1 = 3", true),
            ("CAST(K AS INT) = 3", true),
            ("1 = 1", true),
            ("V IS NOT DISTINCT FROM 3", true),
            ("V > ${x}", true),
        ] {
            let text = format!("SELECT * FROM T WHERE {filter};");
            assert_eq!(may(&classify(&text)), expected, "{text}");
        }
        assert!(!may(&classify("SELECT K = 'a' FROM T;")), "only WHERE counts");
    }
}
