"""What transformers answers, in either version: a translator between two of its languages, and the
zero-shot pipeline, the ids of texts, what is below a head, and a model with an adapter.
test_languages.py, test_zero_shot.py, test_tokenizer_listed.py, test_fairseq.py,
test_heads_versions.py and test_lora_peft.py call it, and run this file with the newer version first
on the path:

    answers.py JOBS.json

A list of {"kind", "folder", "again", "asks"}: the class of tokenizers, "zero-shot", "ids" or
"headed" (with a "class" of models, and "how" it is loaded), "adapted"; a directory that the older
one saved (of "ids" a tokenizer's); where this one saves the same again; and what is asked, the
arguments of `Translator.answer` or of `zero_shot`, or texts (with "back", their ids' texts come
too, with "whole" the ids around a text; of "headed" lists of one text or two). The answers go to
JOBS.answers.json, and the version is printed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers

from places import run_newer


class Translator:
    """A model and its tokenizer. kind: the tokenizer's class, without its ending."""

    def __init__(self, kind: str, words: Any, model: Any) -> None:
        self.kind, self.words, self.model = kind, words, model

    def ids(self, text: str, source: str | None, target: str | None) -> list[int]:
        if self.kind == "Marian":
            return self.words(f">>{target}<< {text}" if target else text).input_ids
        if source:
            self.words.src_lang = source
        return self.words(text).input_ids

    def id_of(self, name: str) -> int:
        token = f"__{name}__" if self.kind in ("M2M100", "PLBart") else name
        return self.words.convert_tokens_to_ids(token)

    def outputs(self, ids: list[int], target: str, beams: int, new: int) -> tuple[list, list]:
        """(ids, scores)."""
        batch, how = torch.tensor([ids]), {}
        if self.kind in ("MBart", "PLBart"):
            how["decoder_start_token_id"] = self.id_of(target)
        elif self.kind != "Marian":
            how["forced_bos_token_id"] = self.id_of(target)
        with torch.no_grad():
            made = self.model.generate(
                batch,
                attention_mask=torch.ones_like(batch),
                do_sample=False,
                max_new_tokens=new,
                num_beams=beams,
                num_return_sequences=beams,
                return_dict_in_generate=True,
                output_scores=True,
                **how,
            )
        end, rows = self.model.config.eos_token_id, []
        for row in made.sequences.tolist():
            row = row[1:]
            rows.append(row[: row.index(end) + 1] if end in row else row)
        return rows, made.sequences_scores.tolist() if beams > 1 else []

    def answer(self, text: str, source: str | None, target: str, beams: int, new: int) -> dict:
        """The text's ids; the tokens of greedy decoding, and the hypotheses of beams with their
        scores."""
        ids = self.ids(text, source, target)
        rows, scores = self.outputs(ids, target, beams, new)
        return {
            **{"ids": ids, "greedy": self.outputs(ids, target, 1, new)[0][0]},
            **{"rows": rows, "scores": scores},
        }


def zero_shot(ask: Any, text: str, labels: str, template: str, each: bool) -> dict[str, float]:
    """The pipeline's scores by label."""
    made = ask(text, labels, hypothesis_template=template, multi_label=each)
    return dict(zip(made["labels"], made["scores"]))


class HF_ColBERT(transformers.BertPreTrainedModel):
    """As Stanford's code has it. dim: of its vectors."""

    def __init__(self, config: Any, dim: int) -> None:
        super().__init__(config)
        self.bert = transformers.BertModel(config)
        self.linear = torch.nn.Linear(config.hidden_size, dim, bias=False)
        self.post_init()

    def forward(self, **given: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"vectors": self.linear(self.bert(**given).last_hidden_state)}


def headed(kind: str, folder: str, how: dict[str, Any], asks: list, again: str | None) -> list:
    """What a model of a class gives for texts, or for pairs: each with its ids. The model and its
    tokenizer are saved again, if somewhere."""
    own = HF_ColBERT if kind == HF_ColBERT.__name__ else getattr(transformers, kind)
    model = own.from_pretrained(folder, dtype=torch.float32, **how).eval()
    said = json.loads((Path(folder) / "tokenizer_config.json").read_text())["tokenizer_class"]
    # AutoTokenizer of the newer version would put Qwen2's own in the place of this class
    plain = said == "PreTrainedTokenizerFast"
    words = (getattr(transformers, said) if plain else transformers.AutoTokenizer).from_pretrained(
        folder
    )
    answers = []
    for saved in (model, words) if again else ():
        saved.save_pretrained(again)
    for ask in asks:
        given = words(*ask, return_tensors="pt")
        if kind.startswith("ModernBert"):
            given.pop("token_type_ids", None)
        with torch.no_grad():
            made = next(iter(model(**given).values()))
        answers.append([given["input_ids"][0].tolist(), made[0].tolist()])
    return answers


def adapted(job: dict[str, Any]) -> list:
    """The logits of PEFT's model for ids, of an encoder-decoder for the second list of them behind
    the first. rows: of the vocabulary that the adapter was trained with."""
    import peft

    kind = getattr(transformers, job["class"])
    base = kind.from_pretrained(job["folder"], dtype=torch.float32)
    if job["rows"] != base.config.vocab_size:
        base.resize_token_embeddings(job["rows"], mean_resizing=False)
    model = peft.PeftModel.from_pretrained(base, job["adapter"]).eval()
    source, target = job["asks"]
    given = {"input_ids": torch.tensor([source])}
    if base.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.tensor([target])
    with torch.no_grad():
        return next(iter(model(**given).values()))[0].tolist()


def scored(job: dict[str, Any]) -> list:
    """What a library gives for texts or pairs, one row each: transformers' pipeline the scores by
    the order of the labels' names, sentence-transformers its scores or vectors."""
    folder, asks = job["folder"], job["asks"]
    if job["kind"] == "pipeline":
        ask = transformers.pipeline("text-classification", folder, dtype=torch.float32)
        given = [dict(zip(("text", "text_pair"), one)) for one in asks]
        rows = ask(given, top_k=None, truncation=True)
        return [[o["score"] for o in sorted(row, key=lambda o: o["label"])] for row in rows]
    import sentence_transformers

    if job["kind"] == "cross":
        made = sentence_transformers.CrossEncoder(folder, device="cpu").predict(asks)
        return made.reshape(len(asks), -1).tolist()
    model = sentence_transformers.SentenceTransformer(folder, device="cpu")
    return model.encode([text for (text,) in asks]).tolist()


def newer_answers(out: Path, jobs: list[dict[str, Any]]) -> list[list]:
    """The answers of the newer version, which runs in a process of its own."""
    path = out / "jobs.json"
    path.write_text(json.dumps(jobs))
    said = run_newer(__file__, path)
    assert said.strip().startswith("5."), said
    return json.loads(path.with_suffix(".answers.json").read_text())


def _answers(job: dict[str, Any]) -> list:
    folder, again = job["folder"], job["again"]
    if job["kind"] == "adapted":
        return adapted(job)
    if job["kind"] in ("pipeline", "cross", "vectors"):
        try:
            return scored(job)
        except ValueError as error:
            if not job.get("may_fail"):
                raise
            return f"refused: {error}"
    try:
        words = transformers.AutoTokenizer.from_pretrained(folder)
    except TypeError as error:
        if not job.get("may_fail"):
            raise
        return f"refused: {error}"
    if job["kind"] == "headed":
        return headed(job["class"], folder, job["how"], job["asks"], again)
    if job["kind"] == "ids":
        words.save_pretrained(again)
        around = job.get("whole", False)
        ids = [words(text, add_special_tokens=around).input_ids for text in job["asks"]]
        if not job.get("back"):
            return ids
        return [[one, words.decode(one, skip_special_tokens=True)] for one in ids]
    if job["kind"] == "zero-shot":
        kind = transformers.AutoModelForSequenceClassification
        model = kind.from_pretrained(folder, dtype=torch.float32)
        ask = transformers.pipeline("zero-shot-classification", model=model, tokenizer=words)
        answers = [zero_shot(ask, *one) for one in job["asks"]]
    else:
        kind = transformers.AutoModelForSeq2SeqLM
        model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        translator = Translator(job["kind"], words, model)
        answers = [translator.answer(*one) for one in job["asks"]]
        words = transformers.AutoTokenizer.from_pretrained(folder)  # in its first language
    model.save_pretrained(again)
    words.save_pretrained(again)
    return answers


def main(path: Path) -> None:
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    answers = [_answers(job) for job in json.loads(path.read_text())]
    path.with_suffix(".answers.json").write_text(json.dumps(answers))
    print(transformers.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
