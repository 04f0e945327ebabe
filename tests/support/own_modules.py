"""Ten models as people write them who learn from public tutorials, with tensors named as those have
them: what `convert.py --expect` must prove. Numbers come from NumPy's generator, so that a model is
the same with every PyTorch. tests/golden/own has what they give (golden/make_own.py)."""

from __future__ import annotations

import math
from typing import Callable, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Own(NamedTuple):
    """A model, what its owner saves, and what it is given."""

    net: nn.Module
    saved: dict  # the argument of torch.save
    given: dict[str, np.ndarray]  # ids or vectors, and target
    output: np.ndarray


def sinusoids(count: int, width: int) -> Tensor:
    places = torch.arange(count, dtype=torch.float64)[:, None]
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.zeros(count, width, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = torch.sin(places * rates), torch.cos(places * rates)
    return table.float()


def causal(length: int) -> Tensor:
    """True where a query may not look."""
    return torch.triu(torch.ones(length, length, dtype=torch.bool), 1)


# ---- 1: translation with nn.Transformer, sinusoids in a buffer


class PositionalEncoding(nn.Module):
    def __init__(self, width: int, most: int) -> None:
        super().__init__()
        self.register_buffer("pos_embedding", sinusoids(most, width)[:, None])

    def forward(self, x: Tensor) -> Tensor:  # (T, B, D)
        return x + self.pos_embedding[: x.size(0)]


class TokenEmbedding(nn.Module):
    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding, self.width = nn.Embedding(vocabulary, width), width

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) * math.sqrt(self.width)


class Seq2SeqTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.Transformer(32, 4, 2, 2, 48, 0.0)
        self.generator = nn.Linear(32, 37)
        self.src_tok_emb, self.tgt_tok_emb = TokenEmbedding(41, 32), TokenEmbedding(37, 32)
        self.positional_encoding = PositionalEncoding(32, 64)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        source = self.positional_encoding(self.src_tok_emb(ids.T))
        other = self.positional_encoding(self.tgt_tok_emb(target.T))
        given = self.transformer(source, other, tgt_mask=causal(other.size(0)))
        return self.generator(given).transpose(0, 1)


# ---- 2: the same from parts of one's own, learned positions


class MultiHeadAttentionLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, math.sqrt(width // heads)
        self.fc_q, self.fc_k = nn.Linear(width, width), nn.Linear(width, width)
        self.fc_v, self.fc_o = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor, hidden: Tensor | None = None) -> Tensor:
        def split(y: Tensor) -> Tensor:
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        q, k, v = split(self.fc_q(x)), split(self.fc_k(memory)), split(self.fc_v(memory))
        scores = q @ k.transpose(-1, -2) / self.scale
        if hidden is not None:
            scores = scores.masked_fill(hidden, -1e10)
        return self.fc_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class PositionwiseFeedforward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc_1, self.fc_2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc_2(torch.relu(self.fc_1(x)))


class TutorialLayer(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, crossing: bool) -> None:
        super().__init__()
        self.self_attn_layer_norm, self.ff_layer_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.self_attention = MultiHeadAttentionLayer(width, heads)
        self.positionwise_feedforward = PositionwiseFeedforward(width, hidden)
        if crossing:
            self.enc_attn_layer_norm = nn.LayerNorm(width)
            self.encoder_attention = MultiHeadAttentionLayer(width, heads)

    def forward(self, x: Tensor, memory: Tensor | None, hidden: Tensor | None) -> Tensor:
        x = self.self_attn_layer_norm(x + self.self_attention(x, x, hidden))
        if memory is not None:
            x = self.enc_attn_layer_norm(x + self.encoder_attention(x, memory))
        return self.ff_layer_norm(x + self.positionwise_feedforward(x))


class TutorialStack(nn.Module):
    def __init__(self, vocabulary: int, crossing: bool) -> None:
        super().__init__()
        self.tok_embedding, self.pos_embedding = nn.Embedding(vocabulary, 36), nn.Embedding(50, 36)
        self.layers = nn.ModuleList(TutorialLayer(36, 3, 44, crossing) for _ in range(2))
        if crossing:
            self.fc_out = nn.Linear(36, vocabulary)

    def forward(self, ids: Tensor, memory: Tensor | None = None) -> Tensor:
        places = torch.arange(ids.size(1))
        x = self.tok_embedding(ids) * math.sqrt(36) + self.pos_embedding(places)
        for layer in self.layers:
            x = layer(x, memory, None if memory is None else causal(ids.size(1)))
        return x if memory is None else self.fc_out(x)


class Seq2Seq(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = TutorialStack(43, False), TutorialStack(39, True)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        return self.decoder(target, self.encoder(ids))


# ---- 3: the same with rotary positions, norms first


def rotate(x: Tensor) -> Tensor:
    """(B, H, T, w): neighbors turn together."""
    width = x.size(-1)
    rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(x.size(-2), dtype=torch.float64)[:, None] * rates
    cos, sin = angles.cos().float(), angles.sin().float()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class RotaryAttention(nn.Module):
    def __init__(self, width: int, heads: int, turns: bool) -> None:
        super().__init__()
        self.heads, self.turns = heads, turns
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, masked: bool = False) -> Tensor:
        q, k, v = (
            f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for f, y in ((self.wq, x), (self.wk, memory), (self.wv, memory))
        )
        if self.turns:
            q, k = rotate(q), rotate(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=masked)
        return self.wo(y.transpose(1, 2).flatten(2))


class RotaryBlock(nn.Module):
    def __init__(self, crossing: bool) -> None:
        super().__init__()
        self.attn, self.norm_attn = RotaryAttention(32, 4, True), nn.LayerNorm(32)
        if crossing:
            self.cross, self.norm_cross = RotaryAttention(32, 4, False), nn.LayerNorm(32)
        self.norm_mlp = nn.LayerNorm(32)
        self.mlp = nn.Sequential(nn.Linear(32, 56), nn.GELU(), nn.Linear(56, 32))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        h = self.norm_attn(x)
        x = x + self.attn(h, h, memory is not None)
        if memory is not None:
            x = x + self.cross(self.norm_cross(x), memory)
        return x + self.mlp(self.norm_mlp(x))


class RotaryTranslator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(38, 32), nn.Embedding(45, 32)
        self.enc_blocks = nn.ModuleList(RotaryBlock(False) for _ in range(2))
        self.dec_blocks = nn.ModuleList(RotaryBlock(True) for _ in range(2))
        self.enc_norm, self.dec_norm = nn.LayerNorm(32), nn.LayerNorm(32)
        self.head = nn.Linear(32, 45, bias=False)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        x, y = self.src_embed(ids), self.tgt_embed(target)
        for block in self.enc_blocks:
            x = block(x)
        x = self.enc_norm(x)
        for block in self.dec_blocks:
            y = block(y, x)
        return self.head(self.dec_norm(y))


# ---- 4: a classifier of texts, mean of the positions


class TextClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(60, 32)
        self.pos_encoder = nn.Parameter(torch.zeros(1, 40, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, 2)
        self.classifier = nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(32) + self.pos_encoder[:, : ids.size(1)]
        return self.classifier(self.transformer_encoder(x).mean(dim=1))


# ---- 5: a tagger, a label for each token


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_emb, self.pos_emb = nn.Embedding(55, 40), nn.Embedding(32, 40)
        self.emb_norm = nn.LayerNorm(40)
        layer = nn.TransformerEncoderLayer(
            40, 5, 52, 0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(40), enable_nested_tensor=False)
        self.hidden2tag = nn.Linear(40, 7)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.word_emb(ids) + self.pos_emb(torch.arange(ids.size(1)))
        return self.hidden2tag(self.encoder(self.emb_norm(x)))


# ---- 6: a time series, the next values from the last position


class TimeSeriesTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_linear = nn.Linear(6, 32)
        self.pos_encoder = PositionalEncoding(32, 48)
        layer = nn.TransformerEncoderLayer(32, 4, 48, 0.0)
        self.transformer_encoder = nn.TransformerEncoder(layer, 2)
        self.decoder = nn.Linear(32, 3)

    def forward(self, vectors: Tensor) -> Tensor:
        x = self.input_linear(vectors.transpose(0, 1)) * math.sqrt(32)
        return self.decoder(self.transformer_encoder(self.pos_encoder(x))[-1])


# ---- 7: a picture as patches, a class token


class PatchAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.to_out = nn.Sequential(nn.Linear(width, width), nn.Dropout(0.0))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        )
        y = (q @ k.transpose(-1, -2) * (48 // self.heads) ** -0.5).softmax(-1) @ v
        return self.to_out(y.transpose(1, 2).flatten(2))


class PatchFeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class PatchTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList([PatchAttention(48, 4), PatchFeedForward(48, 60)]) for _ in range(2)
        )
        self.norm = nn.LayerNorm(48)

    def forward(self, x: Tensor) -> Tensor:
        for attention, feed_forward in self.layers:
            x = x + attention(x)
            x = x + feed_forward(x)
        return self.norm(x)


class VisionTransformer(nn.Module):
    """Patches of 4 x 4 x 3 values, as many as the width."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embedding = nn.Linear(48, 48)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 48))
        self.pos_embedding = nn.Parameter(torch.zeros(1, 17, 48))
        self.transformer = PatchTransformer()
        self.mlp_head = nn.Linear(48, 5)

    def forward(self, vectors: Tensor) -> Tensor:
        x = self.patch_embedding(vectors)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1)
        x = self.transformer(x + self.pos_embedding[:, : x.size(1)])
        return self.mlp_head(x[:, 0])


# ---- 8: a decoder of characters, a module for each head


class Head(nn.Module):
    def __init__(self, width: int, head_width: int, most: int) -> None:
        super().__init__()
        self.key, self.query = (nn.Linear(width, head_width, bias=False) for _ in range(2))
        self.value = nn.Linear(width, head_width, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(most, most)))

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        k, q = self.key(x), self.query(x)
        weights = q @ k.transpose(-2, -1) * k.size(-1) ** -0.5
        weights = weights.masked_fill(self.tril[:length, :length] == 0, float("-inf"))
        return weights.softmax(-1) @ self.value(x)


class Heads(nn.Module):
    def __init__(self, count: int, width: int, most: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head(width, width // count, most) for _ in range(count))
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


class CharacterFeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class CharacterBlock(nn.Module):
    def __init__(self, width: int, heads: int, most: int) -> None:
        super().__init__()
        self.sa, self.ffwd = Heads(heads, width, most), CharacterFeedForward(width)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.sa(self.ln1(x))
        return x + self.ffwd(self.ln2(x))


class CharacterModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token_embedding_table = nn.Embedding(47, 32)
        self.position_embedding_table = nn.Embedding(24, 32)
        self.blocks = nn.Sequential(*(CharacterBlock(32, 4, 24) for _ in range(2)))
        self.ln_f, self.lm_head = nn.LayerNorm(32), nn.Linear(32, 47)

    def forward(self, ids: Tensor) -> Tensor:
        places = self.position_embedding_table(torch.arange(ids.size(1)))
        return self.lm_head(self.ln_f(self.blocks(self.token_embedding_table(ids) + places)))


# ---- 9: nanoGPT's checkpoint


class GptAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in self.c_attn(x).split(x.size(-1), dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class GptFeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x)))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = GptAttention(width, heads), GptFeedForward(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(65, 32),
                "wpe": nn.Embedding(40, 32),
                "h": nn.ModuleList(GptBlock(32, 4) for _ in range(2)),
                "ln_f": nn.LayerNorm(32),
            }
        )
        self.lm_head = nn.Linear(32, 65, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.transformer.wte(ids) + self.transformer.wpe(torch.arange(ids.size(1)))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


GPT_ARGUMENTS = {
    **{"n_layer": 2, "n_head": 4, "n_embd": 32, "block_size": 40},
    **{"bias": True, "vocab_size": 65, "dropout": 0.0},
}


# ---- 10: the Annotated Transformer


class AnnotatedNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a_2, self.b_2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + 1e-6) + self.b_2


class Sublayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = AnnotatedNorm(width)

    def forward(self, x: Tensor, inner: Callable[[Tensor], Tensor]) -> Tensor:
        return x + inner(self.norm(x))


class AnnotatedAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = (
            linear(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear, y in zip(self.linears, (query, key, value))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if hidden is not None:
            scores = scores.masked_fill(hidden, -1e9)
        return self.linears[-1]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class AnnotatedFeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(torch.relu(self.w_1(x)))


class AnnotatedLayer(nn.Module):
    def __init__(self, crossing: bool) -> None:
        super().__init__()
        self.self_attn, self.feed_forward = AnnotatedAttention(32, 4), AnnotatedFeedForward(32, 64)
        if crossing:
            self.src_attn = AnnotatedAttention(32, 4)
        self.sublayer = nn.ModuleList(Sublayer(32) for _ in range(3 if crossing else 2))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        masked = None if memory is None else causal(x.size(1))
        x = self.sublayer[0](x, lambda y: self.self_attn(y, y, y, masked))
        if memory is not None:
            x = self.sublayer[1](x, lambda y: self.src_attn(y, memory, memory, None))
        return self.sublayer[-1](x, self.feed_forward)


class AnnotatedStack(nn.Module):
    def __init__(self, crossing: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(AnnotatedLayer(crossing) for _ in range(2))
        self.norm = AnnotatedNorm(32)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, memory)
        return self.norm(x)


class Embeddings(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.lut = nn.Embedding(vocabulary, 32)

    def forward(self, ids: Tensor) -> Tensor:
        return self.lut(ids) * math.sqrt(32)


class AnnotatedPositions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("pe", sinusoids(60, 32)[None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


class Generator(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.proj = nn.Linear(32, vocabulary)


class AnnotatedTransformer(nn.Module):
    """The logits before the generator's log-softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = AnnotatedStack(False), AnnotatedStack(True)
        self.src_embed = nn.Sequential(Embeddings(42), AnnotatedPositions())
        self.tgt_embed = nn.Sequential(Embeddings(40), AnnotatedPositions())
        self.generator = Generator(40)

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        memory = self.encoder(self.src_embed(ids))
        return self.generator.proj(self.decoder(self.tgt_embed(target), memory))


# ---- all of them

# name: class, vocabularies of ids and target, or (values of a vector,)
_MODELS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "translator-sinusoidal": (Seq2SeqTransformer, (41, 37)),
    "translator-learned": (Seq2Seq, (43, 39)),
    "translator-rotary": (RotaryTranslator, (38, 45)),
    "classifier": (TextClassifier, (60,)),
    "tagger": (Tagger, (55,)),
    "time-series": (TimeSeriesTransformer, (6,)),
    "vision": (VisionTransformer, (48,)),
    "characters": (CharacterModel, (47,)),
    "nanogpt": (Gpt, (65,)),
    "annotated": (AnnotatedTransformer, (42, 40)),
}
NAMES = tuple(_MODELS)
_OF_VECTORS = ("time-series", "vision")


def make(name: str) -> Own:
    """One of them, with inputs and what it gives."""
    kind, sizes = _MODELS[name]
    rng = np.random.default_rng(NAMES.index(name) + 1)
    net = kind().eval()
    with torch.no_grad():
        for p in net.parameters():  # no value at its default
            centre = 1.0 if p.dim() == 1 and bool((p == 1).all()) else 0.0
            spread = 0.2 if p.dim() == 1 else 0.3
            p.copy_(torch.from_numpy(centre + spread * rng.normal(size=tuple(p.shape))))
    if name in _OF_VECTORS:
        given = {"vectors": rng.normal(size=(3, 12, sizes[0])).astype(np.float32)}
    else:
        given = {"ids": rng.integers(0, sizes[0], (3, 12))}
    if len(sizes) == 2:
        given["target"] = rng.integers(0, sizes[1], (3, 9))
    with torch.no_grad():
        output = net(*map(torch.from_numpy, given.values())).numpy()
    saved = {key: value.clone() for key, value in net.state_dict().items()}
    if name == "nanogpt":
        names = {f"_orig_mod.{key}": value for key, value in saved.items()}
        saved = {"model": names, "model_args": GPT_ARGUMENTS, "iter_num": 3}
    return Own(net, saved, given, output)
