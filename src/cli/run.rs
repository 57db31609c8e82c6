//! `ksqldb-sidecar run`.

use crate::app::Sidecar;
use crate::config::{Config, LoadOptions, LogFormat};
use crate::telemetry::{LogOptions, init};
use std::error::Error;
use std::io::IsTerminal;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Runs a sidecar until SIGTERM or SIGINT, then drains it; a second signal ends the process at once.
///
/// # Errors
/// [`ConfigErrors`](crate::config::ConfigErrors) before any port is bound, or what keeps the sidecar from starting.
pub fn run(options: LoadOptions) -> Result<(), Box<dyn Error>> {
    let config = Config::load(options)?;
    init(LogOptions {
        json: config.log.format == LogFormat::Json,
        colour: std::io::stderr().is_terminal(),
        filter: &config.log.level,
        access: config.log.access,
    })?;
    // one worker needs no scheduler that shares work
    let mut runtime = match config.listen.workers {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.worker_threads(config.listen.workers).enable_all().build()?.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), Box<dyn Error>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let server = config.server.url.to_string();
    let sidecar = Sidecar::start(config).await?;
    tracing::info!(
        client = %sidecar.client_addr(),
        admin = %sidecar.admin_addr(),
        server,
        version = env!("CARGO_PKG_VERSION"),
        "sidecar started"
    );
    either(&mut terminate, &mut interrupt).await;
    tracing::info!("shutting down; a second signal ends at once");
    tokio::select! {
        drained = sidecar.shutdown() => tracing::info!(cut = drained.cut, "sidecar stopped"),
        () = either(&mut terminate, &mut interrupt) => {
            tracing::warn!("ended by a second signal");
            std::process::exit(1);
        }
    }
    Ok(())
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
