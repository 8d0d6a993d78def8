// The page's own script: draws the charts when they come into view, filters and sorts tables, draws ladders.
// Text is only ever set as textContent: nothing from the wire becomes markup.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (tag, text, ...classes) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    element.classList.add(...classes);
    return element;
  };

  // Charts
  const coarse = matchMedia("(pointer: coarse), (max-width: 640px)").matches;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name, printing) =>
    printing ? { ink: "#000000", line: "#cccccc", paper: "#ffffff" }[name]
      : getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const axes = (layout) => Object.keys(layout).filter((key) => /^[xy]axis/.test(key));
  const themed = (layout, printing) => {
    const theme = {
      "font.color": colour("ink", printing),
      "hoverlabel.bgcolor": colour("paper", printing),
      "hoverlabel.font.color": colour("ink", printing),
    };
    for (const axis of axes(layout)) {
      theme[`${axis}.gridcolor`] = colour("line", printing);
      theme[`${axis}.zerolinecolor`] = colour("line", printing);
      theme[`${axis}.linecolor`] = colour("line", printing);
    }
    return theme;
  };
  const drawn = new Map();
  const draw = (plot) => {
    if (drawn.has(plot)) return;
    const figure = data.figures[plot.dataset.figure];
    const layout = { ...figure.layout, dragmode: coarse ? false : "zoom" };
    if (coarse && layout.xaxis) {
      layout.margin = { ...layout.margin, l: 52, r: 8 };
      if (layout.xaxis.type === "date") layout.xaxis = { ...layout.xaxis, tickangle: 0, nticks: 4 };
    }
    drawn.set(plot, layout);
    Plotly.newPlot(plot, figure.data, layout, { displayModeBar: false, responsive: true });
    Plotly.relayout(plot, themed(layout, false));
  };
  const plots = [...document.querySelectorAll(".plot")];
  const watcher = new IntersectionObserver(
    (entries) => entries.forEach((entry) => {
      if (entry.isIntersecting) {
        watcher.unobserve(entry.target);
        draw(entry.target);
      }
    }),
    { rootMargin: "300px" },
  );
  plots.forEach((plot) => watcher.observe(plot));
  const theme = (printing) => drawn.forEach((layout, plot) => Plotly.relayout(plot, themed(layout, printing)));
  dark.addEventListener("change", () => theme(false));
  addEventListener("beforeprint", () => {
    plots.forEach(draw);
    theme(true);
  });
  addEventListener("afterprint", () => theme(false));

  // Filters
  const rows = [...document.querySelectorAll("table.rows tbody tr")];
  const words = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const filter = () => {
    const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const boxes = [...document.querySelectorAll("#kinds input")];
    const hidden = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
    const trouble = byId("trouble").checked;
    let count = 0;
    for (const row of rows) {
      const matches = wanted.every((word) => words.get(row).includes(word));
      const kind = row.dataset.kind;
      row.hidden = !matches || hidden.has(kind) || (trouble && kind && !("trouble" in row.dataset));
      count += !row.hidden;
    }
    const idle = !wanted.length && !hidden.size && !trouble;
    byId("match-count").textContent = idle ? "" : `${count} of ${rows.length} rows`;
  };
  document.querySelector(".search").addEventListener("input", filter);
  document.querySelector(".search").addEventListener("submit", (event) => event.preventDefault());

  // Sorting
  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent;
    return text === "" || isNaN(text) ? text : Number(text);
  };
  const compare = (one, other) =>
    typeof one === typeof other && typeof one === "number" ? one - other : String(one).localeCompare(String(other));
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const first = head.classList.contains("number") ? "descending" : "ascending";
        const second = first === "ascending" ? "descending" : "ascending";
        const order = head.getAttribute("aria-sort") === first ? second : first;
        for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const body = table.tBodies[0];
        body.append(...[...body.rows].sort((a, b) => sign * compare(value(a, column), value(b, column))));
      });
    });
  }

  // Ladders
  const span = (ns) => {
    const size = Math.abs(ns);
    const [unit, name] = size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "us"] : [1, "ns"];
    return `${(ns / unit).toFixed(unit === 1 ? 0 : 2)} ${name}`;
  };
  const clock = (ns) => {
    const whole = BigInt(ns);
    const fraction = String(whole % 1000000000n).padStart(9, "0");
    return `${new Date(Number(whole / 1000000n)).toISOString().slice(0, 19).replace("T", " ")}.${fraction}`;
  };
  const heads = (names) => {
    const head = make("tr");
    for (const name of names) {
      const cell = make("th", name);
      cell.scope = "col";
      head.append(cell);
    }
    return head;
  };
  const arrow = (from, to, lanes, op, text, spoken) => {
    const cells = [];
    const left = Math.min(from, to);
    const right = Math.max(from, to, left + 1);
    for (let lane = 0; lane < left; lane += 1) cells.push(make("td", "", "idle"));
    const cell = make("td", undefined, "arrow", to >= from ? "right" : "left");
    cell.colSpan = right - left;
    const line = make("div");
    line.append(make("b", op), make("span", text));
    line.setAttribute("aria-label", spoken);
    line.setAttribute("role", "img");
    cell.append(line);
    cells.push(cell);
    for (let lane = right; lane < lanes - 1; lane += 1) cells.push(make("td", "", "idle"));
    return cells;
  };
  const ladder = (caption, people, lines) => {
    const table = make("table", undefined, "ladder");
    table.append(make("caption", caption));
    const head = heads(["time", "frame"]);
    head.cells[0].classList.add("at");
    head.cells[1].classList.add("number");
    for (let lane = 0; lane < people.length - 1; lane += 1) {
      const cell = make("th", lane ? `→ ${people[lane + 1]}` : `${people[0]} ⇄ ${people[1]}`);
      cell.scope = "col";
      head.append(cell);
    }
    const body = make("tbody");
    body.append(...lines);
    table.append(make("thead"), body);
    table.tHead.append(head);
    table.style.minWidth = `${10 + 7 * (people.length - 1)}rem`;
    byId("ladder").replaceChildren(table);
    return table;
  };
  const drawSession = (session, chosen) => {
    const { texts } = data;
    const lines = [];
    let before = 0;
    for (const [number, at, packet, side, op, subject, reply, size, note] of session.frames) {
      if (number > before + 1) {
        const gap = make("tr", undefined, "gap");
        const cell = make("td", `${number - before - 1} frames are not in this report`);
        cell.colSpan = 3;
        gap.append(cell);
        lines.push(gap);
      }
      before = number;
      const row = make("tr");
      const [one, other] = side ? [session.ends[1], session.ends[0]] : session.ends;
      const text = [texts[subject], texts[reply] && `reply to ${texts[reply]}`, size > 60 && `${size} B`, texts[note]];
      const words = text.filter(Boolean).join("  ");
      row.append(make("td", span(at), "at"), make("td", String(number), "number"));
      row.title = `packet ${packet}, ${clock(BigInt(session.start) + BigInt(at))} UTC`;
      row.append(...arrow(side, 1 - side, 2, texts[op], words, `${one} to ${other}: ${texts[op]} ${words}`));
      if (texts[op] === "-ERR" || texts[note]) row.lastChild.classList.add("bad");
      if (number === chosen) row.classList.add("chosen");
      lines.push(row);
    }
    const rest = session.count - before;
    const more = session.frames.length < session.count ? `, ${session.frames.length} of ${session.count} frames` : `, ${session.count} frames`;
    const caption = `${session.kind} ${session.id}, from ${clock(session.start)} UTC${more}${rest > 0 ? " or more" : ""}`;
    const table = ladder(caption, session.ends, lines);
    const row = table.querySelector(".chosen");
    if (row) row.scrollIntoView({ block: "center" });
  };
  const drawMessage = (message) => {
    const { texts } = data;
    const lines = message.hops.map(([at, from, to, op, subject, session, number, matched]) => {
      const row = make("tr");
      const link = make("a", number);
      link.href = `#session/${session}/${number}`;
      const place = make("td", undefined, "number");
      place.append(link);
      row.append(make("td", span(at), "at"), place);
      const spoken = `${message.people[from]} to ${message.people[to]}: ${texts[op]} ${texts[subject]}`;
      const end = to > message.people.length - 1 ? from : to;
      row.append(...arrow(from, end, Math.max(message.people.length, 2), texts[op], `${texts[subject]} (${texts[matched]})`, spoken));
      return row;
    });
    const equal = message.copies > 1 ? `, one of ${message.copies} equal ones` : "";
    ladder(`message ${message.id} ${message.label}${equal}, ${clock(message.start)} UTC`, message.people, lines);
  };
  const sessions = new Map(data.sessions.map((session) => [session.id, session]));
  const fill = (select, items, label) =>
    items.forEach((item) => {
      const option = make("option", label(item));
      option.value = item.id;
      select.append(option);
    });
  fill(byId("pick-session"), data.sessions, (item) => `${item.id.slice(0, 8)} ${item.kind} ${item.ends[0]} → ${item.ends[1]}, ${item.count} frames`);
  fill(byId("pick-message"), data.messages, (item) => `${item.label} ${item.id.slice(0, 8)}:${item.id.split(":")[1]}, ${item.hops.length} hops`);
  byId("pick-session").addEventListener("change", (event) => {
    if (event.target.value) location.hash = `session/${event.target.value}`;
  });
  byId("pick-message").addEventListener("change", (event) => {
    if (event.target.value) location.hash = `message/${event.target.value}`;
  });

  // Links: #session/ID[/NUMBER], #message/SESSION:NUMBER, #find/TEXT
  const follow = () => {
    const [what, name, number] = location.hash.slice(1).split("/");
    if (what === "session") {
      const session = sessions.get(name);
      byId("pick-session").value = session ? name : "";
      byId("ladders").scrollIntoView();
      if (session) drawSession(session, Number(number));
      else byId("ladder").textContent = `The frames of session ${name} are not in this report; nats-dissect follow ${name} prints them.`;
    } else if (what === "message") {
      byId("ladders").scrollIntoView();
      drawMessage(data.messages.find((message) => message.id === name));
    } else if (what === "find") {
      byId("search").value = decodeURIComponent(location.hash.slice("#find/".length));
      filter();
      byId("sessions").scrollIntoView();
    }
  };
  addEventListener("hashchange", follow);
  follow();
})();
