//! Which keys there are, and which one was meant.

use super::StaticPeer;
use super::layer::Layer;
use super::problem::Problem;
use config::{Value, ValueKind};

/// Likeness (Jaro-Winkler, 0 to 1) from which on a known key is worth suggesting.
const ALIKE: f64 = 0.7;

/// Removes what the defaults do not have, and reports it with the nearest key that they have.
pub(super) fn retain_known(layer: &mut Layer, defaults: &Layer, problems: &mut Vec<Problem>) {
    let place = layer.place.clone();
    let mut report = |key: String, message: String| problems.push(Problem { key, place: place.clone(), message });
    let known: Vec<String> = defaults.keys().map(|(section, key)| format!("{section}.{key}")).collect();
    layer.sections.retain(|section, value| {
        let is_known = defaults.sections.contains_key(section);
        let is_empty = match &value.kind {
            ValueKind::Table(keys) => keys.is_empty(),
            _ if is_known => {
                report(section.clone(), format!("is a section; write [{section}] and its keys below"));
                return false;
            }
            _ => true,
        };
        if !is_known && is_empty {
            let ending = format!(".{section}");
            let meant = known.iter().find(|key| key.ends_with(&ending)).map(String::as_str);
            report(section.clone(), unknown(meant.or_else(|| nearest(section, defaults.sections.keys()))));
        }
        !is_empty
    });
    layer.retain(|section, key, value| {
        let path = format!("{section}.{key}");
        let is_known = defaults.get(section, key).is_some();
        if !is_known {
            let message = unknown(nearest(&path, &known));
            report(path, message);
        } else if path == "peers.static" {
            retain_known_fields(value, &mut report);
        }
        is_known
    });
    layer.sections.retain(|section, _| defaults.sections.contains_key(section));
}

/// The same for the fields of static peers.
fn retain_known_fields(peers: &mut Value, report: &mut impl FnMut(String, String)) {
    let ValueKind::Array(peers) = &mut peers.kind else { return };
    for (index, peer) in peers.iter_mut().enumerate() {
        let ValueKind::Table(fields) = &mut peer.kind else { continue };
        fields.retain(|field, _| {
            let is_known = StaticPeer::KEYS.contains(&field.as_str());
            if !is_known {
                report(format!("peers.static[{index}].{field}"), unknown(nearest(field, StaticPeer::KEYS)));
            }
            is_known
        });
    }
}

fn unknown(meant: Option<&str>) -> String {
    match meant {
        Some(meant) => format!("unknown key; did you mean {meant}?"),
        None => "unknown key; remove it".to_owned(),
    }
}

/// The known key most like `key`, if any is.
fn nearest<'a, T: AsRef<str> + ?Sized + 'a>(key: &str, known: impl IntoIterator<Item = &'a T>) -> Option<&'a str> {
    let scored = known.into_iter().map(|known| (strsim::jaro_winkler(key, known.as_ref()), known.as_ref()));
    let alike = scored.filter(|(score, _)| *score >= ALIKE);
    alike.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}
