//! Selections from streams: pull queries on them, and push queries on anything.

use super::{Found, Outcome, Refusal, field, value};
use crate::emulator::catalogue::Source;
use crate::emulator::datum::Datum;
use crate::emulator::key::Column;
use crate::emulator::model::{Model, Written};
use crate::emulator::statement::Select;

/// What a query on records selects.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The source.
    pub source: String,
    /// The columns; none is marked as a key's.
    pub columns: Vec<(Column, bool)>,
    /// The statement.
    pub select: Select,
}

impl Selection {
    /// Analyses a push query or a pull query on a stream.
    pub fn new(model: &Model, select: &Select) -> Result<Self, Refusal> {
        let unknown =
            || Refusal::Prepare(format!("Exception while preparing statement: {} does not exist.", select.from));
        let source = model.catalogue.source(&select.from).ok_or_else(unknown)?;
        let mut columns = super::plan::columns(source, select)?.0;
        columns.iter_mut().for_each(|(_, key)| *key = false);
        Ok(Selection { source: source.name.clone(), columns, select: select.clone() })
    }

    /// The selected values of a record, if it is of the source and passes the filter.
    pub fn values(&self, source: &Source, record: &Written) -> Option<Vec<Datum>> {
        if record.source != self.source {
            return None;
        }
        let window = record.row.windows.last().copied();
        let column =
            |name: &str| field(source, name).map_or(Datum::Null, |f| value(f, &record.key, &record.row, window));
        let passes = self.select.filter.as_ref().is_none_or(|f| f.holds(&column));
        passes.then(|| self.columns.iter().map(|(c, _)| column(&c.name)).collect())
    }
}

impl Model {
    /// A pull query on a stream reads it from its beginning; `None` if the source is something else.
    pub(super) fn pull_stream(&mut self, server: usize, select: &Select) -> Option<Outcome> {
        let catalogue = self.catalogue.clone();
        let source = catalogue.source(&select.from).filter(|s| !s.is_table())?;
        self.hosts.get(server).filter(|h| h.state.processes())?;
        let selection = match Selection::new(self, select) {
            Ok(selection) => selection,
            Err(why) => return Some(Outcome::Refused(why)),
        };
        let limit = select.limit.unwrap_or(usize::MAX);
        let history = self.history(&source.name);
        let rows = history.iter().filter_map(|r| selection.values(source, r)).map(|values| (values, server));
        let rows: Vec<_> = rows.take(limit).collect();
        let id = Some(format!("transient_{}_{}", source.name, self.chance(u64::MAX >> 1)));
        let limited = rows.len() == limit;
        Some(Outcome::Found(Found { id, limited, rows, ..Found::empty(selection.columns) }))
    }
}
