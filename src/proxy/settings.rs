//! Statements that make or drop tables: keeps the sidecar's own settings of a table in the metastore.

use super::Proxy;
use super::demand::AFTER;
use super::envelope::without_own;
use super::forward::Outgoing;
use super::reply::Served;
use super::request::Head;
use crate::error::ProxyError;
use crate::http::{Body, Pool, ReadBody, read_up_to};
use crate::sql::{Setting, keep_settings};
use crate::view::{Ask, Members, TYPE_PREFIX, Text, forget_bound, keep_bound};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode};
use serde_json::value::RawValue;

/// Largest answer to a `/ksql` request whose extra entities are taken out; of a larger one they stay in.
const ANSWER_BYTES: usize = 4 * 1024 * 1024;

impl Proxy {
    /// Forwards a `/ksql` request, with the settings that servers refuse turned into types that they keep.
    pub(super) async fn statements(&self, head: &Head, body: Bytes) -> Result<(Response<Body>, Served), ProxyError> {
        let mut head = head.clone();
        let (body, asked) = match without_own(&body) {
            Some((body, asked)) => {
                head.headers.remove(CONTENT_LENGTH);
                (body, asked.into_iter().find(|(name, _)| *name == AFTER.member).map(|(_, token)| token))
            }
            None => (body, None),
        };
        let text = statements_of(&body);
        let Some(edited) = self.edit(&body)? else {
            let (response, mut served) = self.forward(&head, Outgoing::Held(body), Pool::Pull).await?;
            if let Some(text) = text.filter(|_| response.status() == StatusCode::OK) {
                served.freshness = self.written(&text, &head, asked);
            }
            return Ok((response, served));
        };
        head.headers.remove(CONTENT_LENGTH);
        let (response, served) = self.forward(&head, Outgoing::Held(edited), Pool::Pull).await?;
        self.ask(Ask::RefreshCatalogue);
        Ok((without_types(response).await, served))
    }

    /// The body with its settings kept; `None` if there are none.
    fn edit(&self, body: &Bytes) -> Result<Option<Bytes>, ProxyError> {
        if !self.settings.table_settings {
            return Ok(None);
        }
        let Ok(document) = serde_json::from_slice::<Members<Text<'_>, &RawValue>>(body) else { return Ok(None) };
        let mut statements = document.0.iter().filter(|(name, _)| &**name == "ksql");
        let (Some((_, raw)), None) = (statements.next(), statements.next()) else { return Ok(None) };
        let Ok(text) = serde_json::from_str::<Text<'_>>(raw.get()) else { return Ok(None) };
        let view = self.published.load();
        let keep = |table: &str, setting| match setting {
            Setting::Made(max_offset_lag) => Some(keep_bound(table, max_offset_lag)),
            Setting::MadeWithout | Setting::Dropped => {
                let known = view.tables.get(table).is_some_and(|table| table.max_offset_lag.is_some());
                known.then(|| forget_bound(table))
            }
        };
        let edited = keep_settings(&text, keep).map_err(|error| ProxyError::BadDemand(error.to_string()))?;
        Ok(edited.map(|edited| {
            let member = |(name, value): &(Text<'_>, &RawValue)| {
                let value = if &**name == "ksql" {
                    serde_json::Value::from(edited.as_str()).to_string()
                } else {
                    value.get().to_owned()
                };
                format!("{}:{value}", serde_json::Value::from(&**name))
            };
            Bytes::from(format!("{{{}}}", document.0.iter().map(member).collect::<Vec<_>>().join(",")))
        }))
    }
}

/// The statements of a `/ksql` request.
fn statements_of(body: &Bytes) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Request {
        ksql: String,
    }
    serde_json::from_slice::<Request>(body).ok().map(|request| request.ksql)
}

/// Takes the entities of the extra statements out of an answer: a list, or an error that lists what came before it.
async fn without_types(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let bytes = match read_up_to(body, ANSWER_BYTES).await {
        Ok(ReadBody::Whole { bytes, trailers: None }) => bytes,
        Ok(other) => return Response::from_parts(parts, other.into_body()),
        Err(error) => return Response::from_parts(parts, Body::failed(error)),
    };
    let kept = match serde_json::from_slice::<Members<Text<'_>, &RawValue>>(&bytes) {
        Ok(error) => error.0.iter().find(|(name, _)| &**name == "entities").and_then(|(_, entities)| {
            let (before, after) = std::str::from_utf8(&bytes).ok()?.split_once(entities.get())?;
            Some(format!("{before}{}{after}", other_entities(entities.get())?))
        }),
        Err(_) => std::str::from_utf8(&bytes).ok().and_then(other_entities),
    };
    let Some(kept) = kept else { return Response::from_parts(parts, Body::full(bytes)) };
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::full(kept))
}

/// A list of entities without those of the extra statements.
fn other_entities(list: &str) -> Option<String> {
    let entities: Vec<&RawValue> = serde_json::from_str(list).ok()?;
    let kept = entities.iter().map(|entity| entity.get()).filter(|entity| !is_of_a_type(entity));
    Some(format!("[{}]", kept.collect::<Vec<_>>().join(",")))
}

/// Whether an entity answers one of the extra statements.
fn is_of_a_type(entity: &str) -> bool {
    let statement = serde_json::from_str::<serde_json::Value>(entity).ok();
    let statement = statement.and_then(|entity| entity.get("statementText")?.as_str().map(str::to_owned));
    statement.is_some_and(|text| {
        let words: Vec<&str> = text.split_whitespace().take(2).collect();
        matches!(words[..], ["DROP" | "CREATE", "TYPE"]) && text.contains(TYPE_PREFIX)
    })
}
