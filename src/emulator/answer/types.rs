//! Custom types.

use super::ksql::wrap;
use crate::emulator::model::Model;
use serde_json::Value;

/// The member of `SHOW TYPES`.
pub(super) fn types(model: &Model) -> String {
    let each: Vec<String> =
        model.types.iter().map(|(name, schema)| format!("{}:{schema}", Value::from(name.as_str()))).collect();
    format!(r#""types":{{{}}}"#, each.join(","))
}

/// `CREATE TYPE`; only STRUCTs of plain types.
pub(super) fn create_type(model: &mut Model, text: &str, rest: &[&str]) -> Result<String, String> {
    let (if_not_exists, rest) = match rest {
        ["IF", "NOT", "EXISTS", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let [name, "AS", "STRUCT", "<", fields @ .., ">"] = rest else {
        return Err("The emulated cluster registers STRUCT types only".to_owned());
    };
    let names: Vec<&str> = fields.split(|w| *w == ",").filter_map(|f| f.first().copied()).collect();
    let kinds: Vec<&str> = fields.split(|w| *w == ",").map(|f| f.get(1).copied().unwrap_or("STRING")).collect();
    let kinds: Vec<&str> = kinds.into_iter().map(|k| if k == "INT" { "INTEGER" } else { k }).collect();
    let upper = name.to_uppercase();
    let message = match model.types.contains_key(&upper) {
        true if if_not_exists => format!("{upper} is already registered with type"),
        true => return Err(format!("Cannot register custom type '{upper}' since it is already registered with type")),
        false => {
            let schema = names.iter().zip(&kinds).map(|(n, k)| {
                format!(r#"{{"name":{},"schema":{{"type":"{k}","fields":null,"memberSchema":null}}}}"#, Value::from(*n))
            });
            let schema = schema.collect::<Vec<_>>().join(",");
            model.types.insert(upper, format!(r#"{{"type":"STRUCT","fields":[{schema}],"memberSchema":null}}"#));
            let sql: Vec<String> = names.iter().zip(&kinds).map(|(n, k)| format!("`{n}` {k}")).collect();
            format!("Registered custom type with name '{name}' and SQL type STRUCT<{}>", sql.join(", "))
        }
    };
    Ok(command(model, text, &format!("type/{name}/create"), &message))
}

/// `DROP TYPE`.
pub(super) fn drop_type(model: &mut Model, text: &str, rest: &[&str]) -> Result<String, String> {
    let (if_exists, name) = match rest {
        ["IF", "EXISTS", name] => (true, name),
        [name] => (false, name),
        _ => return Err("line 1:1: Syntax Error".to_owned()),
    };
    let message = match model.types.remove(&name.to_uppercase()) {
        Some(_) => format!("Dropped type '{name}'"),
        None if if_exists => format!("Type '{name}' does not exist"),
        None => return Err(format!("Type {name} does not exist.")),
    };
    Ok(command(model, text, &format!("type/{name}/drop"), &message))
}

pub(super) fn command(model: &mut Model, text: &str, id: &str, message: &str) -> String {
    model.commands += 1;
    let (id, message) = (Value::from(id), Value::from(message));
    let members = format!(
        r#""commandId":{id},"commandStatus":{{"status":"SUCCESS","message":{message},"queryId":null}},"commandSequenceNumber":{}"#,
        model.commands
    );
    wrap("currentStatus", text, &members)
}
