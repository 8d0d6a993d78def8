"""The layers between TCP and NATS: reassembled bytes in, the plaintext of the NATS stream out.

`detect` judges a connection by its first bytes, `registry` lists the known layers, and each connection has a
`stack` of those that were found. Plain TCP has an empty stack. PROXY headers are taken
off, WebSocket frames and S2 are decoded, TLS is decrypted where its secrets are known.

To add a layer, write a file that defines a `layer.Layer`, and add it to `registry.LAYERS`:

1. `begins` (first bytes of the connection), `replaces` (in place of a frame, such as TLS after INFO) and
   `resumes` (in the middle of a stream) detect it. The registry asks in order. The first layer that is found
   takes the bytes, and its plaintext is judged again, so that layers may lie on each other.
2. `transforms` makes one `layer.Transform` for each direction that the layer changes. Both may share an
   object with what they learn from each other, such as a key; bytes that wait for it come out of `resume`.
3. Each transform counts its input in `LayerBytes`, so that the sums of each layer close.

A connection is pickled with its transforms when another process goes on with it, so they hold plain values. A
flow whose stack changes bytes is read packet by packet there: no summary of its bytes is believed.
"""
