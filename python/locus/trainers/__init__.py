"""Callbacks for trainers: `locus.trainers.huggingface.LocusCallback`, `locus.trainers.lightning.LocusCallback`."""
