"""Add GPLASC to a training loop of your own.

Run ``python examples/own_loop.py``: ten seconds. A small network learns the ten digits in five
tasks of two classes, with cross-entropy on current and remembered images; GPLASC adds three named
terms. Its defaults suit cross-entropy; GPLASC.published has the paper's, for contrastive losses.
Expect a line for each task: accuracy on all digits so far, and the terms of the last batch. The
last accuracy is about 95 %, as it is without the terms: these digits are too easy.
"""

import torch
from torch import nn

import gplasc
from gplasc.models import build_encoder


def images(samples):
    return samples.x.float() / 255, samples.y


def main():
    torch.manual_seed(0)
    stream = gplasc.open_stream("seq-digits")
    encoder = build_encoder("small", in_channels=1, features="signed")
    head = nn.Linear(encoder.feature_dim, stream.num_classes)
    optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.05, momentum=0.9)

    criterion = gplasc.GPLASC(num_tasks=len(stream), feature_dim=encoder.feature_dim)
    loop = gplasc.GPLASCLoop(criterion, encoder, memory=100)
    for task in stream:
        loop.begin_task(num_classes=len(task.classes))
        all_x, all_y = images(task.train)
        for _ in range(8):
            for rows in torch.randperm(len(all_y)).split(32):
                x, y = all_x[rows], all_y[rows]
                if len(loop.memory):  # replay, from the memory that the loop keeps
                    past = torch.randint(len(loop.memory), (32,))
                    x = torch.cat([x, loop.memory["x"][past]])
                    y = torch.cat([y, loop.memory["y"][past]])
                features = encoder(x)
                loss = nn.functional.cross_entropy(head(features), y)
                terms = loop.terms(x, y, features=features)  # range, position, distill
                optimizer.zero_grad()
                (loss + sum(terms.values())).backward()
                optimizer.step()
        loop.end_task()

        encoder.eval()
        seen = [images(past.test) for past in stream[: task.index + 1]]
        hits = torch.cat([head(encoder(x)).argmax(1) == y for x, y in seen])
        encoder.train()
        shown = ", ".join(f"{name} {value.item():z.4f}" for name, value in terms.items())
        print(f"task {task.index}: accuracy {100 * hits.float().mean():.1f} %; {shown}")


if __name__ == "__main__":
    main()
